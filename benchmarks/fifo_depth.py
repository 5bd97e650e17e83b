"""Whether the cost of a message of a FIFO queue depends on how many others wait, and in how many
groups.

    python benchmarks/fifo_depth.py ROOT [--depth 1000000 --groups 100000]

Fills one FIFO queue with 1,000 messages and another with `--depth`, in `--groups` groups, starts a
gateway on each, takes the time of the first request, which reads the queue from its files, then the
rates of both in turn within each round. Prints the rates, and the ratio of the deep queue to the
shallow one. What is filled in and what is sent has ten messages in a group, which a receive of ten
takes together: in both queues a receive does the same. ROOT needs an inode and a block a message.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import click
import sqs
import uvloop
from depth import fill
from pairs import comparison, measure_pairs, peak_mib
from servers import Target, listening, more_descriptors

from mq.ctl.bench.phases import Rates
from mq.lifecycle import Folder
from mq.names import is_fifo
from mq.store.publishing.publish import Draft
from mq_sqs.messages.packing import kept_texts, trailer_of
from mq_sqs.messages.properties import DEDUPLICATION_ID, GROUP_ID

_SHALLOW = 1000
_BODY = "x" * 100


def fill_in_groups(root: Path, depth: int, groups: int) -> None:
    """Publish `depth` messages without a barrier. The queue becomes a FIFO queue by its name."""
    name, body = sqs.FIFO_ENDPOINTS.queue, _BODY.encode()
    assert is_fifo(name)

    def draft_at(at: int) -> Draft:
        lane = {GROUP_ID: f"filled-{at % groups}", DEDUPLICATION_ID: f"filled-{at}"}
        trailer = trailer_of("", kept_texts(lane))
        return Draft(len(body), zlib.crc32(body), body=body, trailer=trailer)

    fill(root, depth, draft_at)
    (root / Folder.QUEUES / sqs.QUEUE).rename(root / Folder.QUEUES / name)


@contextmanager
def gateway_on(root: Path) -> Iterator[Target]:
    command = [sys.executable, "-m", "mq_sqs", f"--root={root}", "--port=0", "--admin=",
               "--visibility=3600", "--allowed-host=mq"]  # fmt: skip
    with listening(command) as (pid, port):
        yield Target("mq-sqs", [("127.0.0.1", port)], sqs.ENDPOINTS, [pid])


def first_use(target: Target, send: sqs.Case) -> float:
    """Return the seconds until some messages are sent, before which the queue is read from its
    files. A request that waits too long for that is refused, and sent again as an SDK would."""
    started = time.perf_counter()
    while True:
        try:
            uvloop.run(sqs.measure(send, target, 4, 1))
        except RuntimeError as refused:
            if "is being read from its files" not in str(refused):
                raise
        else:
            return time.perf_counter() - started


def run_round(target: Target, cases: list[sqs.Case], messages: int, connections: int) -> Rates:
    """Send and receive as many, so that the depth stays as it is."""
    rates: Rates = {}
    send, send_ten, receive = cases
    for case, count in ((send, messages), (send_ten, messages), (receive, 2 * messages)):
        rates |= uvloop.run(sqs.measure(case, target, count, connections))
    return rates


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--depth", default=1_000_000, show_default=True)
@click.option("--groups", default=100_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--messages", default=3000, show_default=True, help="Of a phase.")
@click.option("--connections", default=64, show_default=True)
def main(
    *, root: Path, depth: int, groups: int, rounds: int, messages: int, connections: int
) -> None:
    """Rates of a shallow FIFO queue and of a deep one, paired in each round."""
    more_descriptors()
    every = sqs.cases(_BODY, lambda at: at // sqs.TEN)
    cases = [case for case in every if case.name.endswith("FIFO")]
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        with ExitStack() as running:
            targets = []
            for waiting in (_SHALLOW, depth):
                fill_in_groups(folder / str(waiting), waiting, max(1, waiting * groups // depth))
                started = time.perf_counter()
                target = running.enter_context(gateway_on(folder / str(waiting)))
                begun = time.perf_counter() - started
                used = first_use(target, cases[0])
                print(f"{waiting}: start {begun:.1f} s, first message {used:.1f} s, "
                      f"peak memory {peak_mib(target):.0f} MiB")  # fmt: skip
                targets.append(target)
            shallow, deep = targets
            measured = partial(run_round, cases=cases, messages=messages, connections=connections)
            pairs = measure_pairs((shallow, deep), measured, rounds)
            print(f"after {rounds} rounds: peak memory {peak_mib(deep):.0f} MiB")
    finally:
        shutil.rmtree(folder)
    print(comparison(pairs))


if __name__ == "__main__":
    main()
