"""Whether the cost of a message depends on how many others wait.

    python benchmarks/depth.py ROOT [--depths 0,1000000]

For each depth: fill a queue with that many sealed messages, start `mq` on it, take the time of the
first look, which lists the folder, then the rates of `phases.py` on that very queue.
ROOT needs an inode and a block a message.
"""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from contextlib import suppress
from pathlib import Path

import click
import uvloop
from phases import measure
from servers import Target, serving

from mq.commit.operation import Operation
from mq.config import ServerConfig
from mq.ctl.bench.generator import connect
from mq.ctl.bench.phases import each
from mq.disk.file_work import FileCalls, make_calls
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.queues import make_queue
from mq.spool.root import open_root
from mq.store.context import Workspace
from mq.store.publishing.publish import Draft, publish

_BODY = b"x" * 100


def fill(root: Path, depth: int) -> None:
    """Publish `depth` messages without a barrier."""
    spool, _ = open_root(root, 0o700, Files())
    work = Workspace(spool, ServerConfig(root), lambda: None)
    queue = QueueName("bench")
    make_queue(spool.files, spool.fd(Folder.QUEUES), queue)
    draft = Draft(len(_BODY), zlib.crc32(_BODY), None, _BODY)
    with click.progressbar(range(depth), label=f"filling {depth}", file=sys.stderr) as steps:
        for _ in steps:
            without_barriers(publish(work, queue, draft))
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
    """Seconds until the queue's messages are counted, which lists its folder."""
    [client] = await connect(target.dialect, target.addresses, 1)
    started = time.perf_counter()
    await client.play(each(iter([b"GET /bench HTTP/1.1\r\nHost: mq\r\n\r\n"]), len))
    client.close()
    return time.perf_counter() - started


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True))
@click.option("--depths", default="0,1000000,0", show_default=True)
@click.option("--messages", default=5000, show_default=True)
def main(root: Path, depths: str, messages: int) -> None:
    """Rates at different depths of one queue."""
    for depth in map(int, depths.split(",")):
        with tempfile.TemporaryDirectory(dir=root) as below:
            folder = Path(below) / "mq"
            fill(folder, depth)
            started = time.perf_counter()
            with serving(folder) as target:
                found = {"start, s": time.perf_counter() - started}
                found["first look, s"] = uvloop.run(first_look(target))
                rates = uvloop.run(measure(target, messages, 64, _BODY))
                found |= {f"{phase}/s": rate.per_second for phase, rate in rates.items()}
                status = Path(f"/proc/{target.pids[0]}/status").read_text()
                found["peak memory, MiB"] = int(status.split("VmHWM:")[1].split()[0]) / 1024
        print(f"depth {depth:8}: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))


if __name__ == "__main__":
    main()
