"""Whether the cost of a message depends on how many others wait.

    python benchmarks/depth.py ROOT [--depth 1000000]

Fills one queue with 1,000 sealed messages and another with `--depth`, starts `mq` on each, takes
the time of the first look, which lists the folder, then the rates of `phases.py` on those very
queues, in turn within each round. Prints the rates and the ratio of the deep queue to the shallow
one. Then the file calls alone, in C, in folders as deep: what that ratio is without a server.
ROOT needs two inodes and two blocks a message.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import click
import uvloop
from ceilings import compiled, run_file_calls
from pairs import comparison, measure_pairs, peak_mib
from phases import measure
from servers import Target, more_descriptors, serving

from mq.commit.operation import Operation
from mq.config import ServerConfig
from mq.ctl.bench.generator import connect
from mq.ctl.bench.phases import Rates, each
from mq.disk.file_work import FileCalls, make_calls
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.queues import make_queue
from mq.spool.root import open_root
from mq.store.publishing.publish import Draft, publish
from mq.store.shared_state import Workspace

_SHALLOW = 1000
_BODY = b"x" * 100


def fill(root: Path, depth: int, draft_at: Callable[[int], Draft]) -> None:
    """Publish `depth` messages to the queue `bench` of a new root, without a barrier."""
    spool, _ = open_root(root, 0o700, Files())
    work = Workspace(spool, ServerConfig(root), lambda: None)
    queue = QueueName("bench")
    make_queue(spool.files, spool.fd(Folder.QUEUES), queue)
    with click.progressbar(range(depth), label=f"filling {depth}", file=sys.stderr) as steps:
        for at in steps:
            without_barriers(publish(work, queue, draft_at(at)))
    spool.files.sync_file_system(spool.fd(Folder.QUEUES))
    spool.close()


def without_barriers(operation: Operation[object]) -> None:
    """Make its file calls, and pass no barrier."""
    answer = None
    with suppress(StopIteration):
        while True:
            need = operation.send(answer)
            answer = make_calls([need])[0] if isinstance(need, FileCalls) else None


async def first_look(target: Target) -> float:
    """Return the seconds until the queue's messages are counted, which lists its folder."""
    [client] = await connect(target.dialect, target.addresses, 1)
    started = time.perf_counter()
    await client.play(each(iter([b"GET /bench HTTP/1.1\r\nHost: mq\r\n\r\n"]), len))
    client.close()
    return time.perf_counter() - started


def run_round(target: Target, messages: int, connections: int) -> Rates:
    return uvloop.run(measure(target, messages, connections, _BODY))


def file_calls_compared(folder: Path, depth: int, messages: int) -> dict[str, float]:
    """Return what is left of the rates of the file calls in a folder of that depth, in rounds of
    64."""
    with compiled() as program:
        if program is None:
            return {}
        measured = partial(run_file_calls, program, folder, kind="single", messages=messages,
                           round_=64, size=len(_BODY))  # fmt: skip
        shallow, deep = measured(depth=_SHALLOW), measured(depth=depth)
    return {phase: deep[phase].per_second / shallow[phase].per_second for phase in deep}


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--depth", default=1_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--messages", default=5000, show_default=True, help="Of a phase.")
@click.option("--connections", default=64, show_default=True)
def main(*, root: Path, depth: int, rounds: int, messages: int, connections: int) -> None:
    """Rates of a shallow queue and of a deep one, paired in each round."""
    more_descriptors()
    folder = Path(tempfile.mkdtemp(dir=root))
    draft = Draft(len(_BODY), zlib.crc32(_BODY), None, _BODY)
    try:
        with ExitStack() as running:
            targets = []
            for waiting in (_SHALLOW, depth):
                fill(folder / str(waiting), waiting, lambda _: draft)
                started = time.perf_counter()
                target = running.enter_context(serving(folder / str(waiting)))
                begun = time.perf_counter() - started
                looked = uvloop.run(first_look(target))
                print(f"{waiting}: start {begun:.1f} s, first look {looked:.2f} s, "
                      f"peak memory {peak_mib(target):.0f} MiB")  # fmt: skip
                targets.append(target)
            shallow, deep = targets
            measured = partial(run_round, messages=messages, connections=connections)
            pairs = measure_pairs((shallow, deep), measured, rounds)
            print(f"after {rounds} rounds: peak memory {peak_mib(deep):.0f} MiB")
        # The file calls make as many files again.
        for waiting in (_SHALLOW, depth):
            shutil.rmtree(folder / str(waiting))
        alone = file_calls_compared(folder, depth, rounds * messages)
    finally:
        shutil.rmtree(folder)
    print(comparison(pairs, alone))


if __name__ == "__main__":
    main()
