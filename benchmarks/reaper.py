"""What a million removed messages cost the reaper, and what the reaper costs a publisher.

    python benchmarks/reaper.py ROOT [--files 1000000] [--size 100]

Fills ROOT/mq/remove, then publishes one message after the other, in this process and on the same
file system: while the reaper unlinks them all, and for as long again without it. Prints how long
the reaper took, and how long publishes took in both times. ROOT needs an inode a file, and a block.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import click

from mq.config import ServerConfig
from mq.ids import MessageIds
from mq.names import QueueName
from mq.store.opening import open_store
from mq.store.publishing.publish import Draft
from mq.store.store import Store

_QUEUE = QueueName("bench")
_BODY = b"x" * 100


def fill(folder: Path, files: int, size: int) -> None:
    ids = MessageIds(time.time_ns)
    body = b"x" * size
    with click.progressbar(range(files), label="filling", file=sys.stderr) as steps:
        for _ in steps:
            (folder / f"{_QUEUE}:{ids.next()}").write_bytes(body)
    os.sync()


def start(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "mq_reaper", f"--source={folder}"], stderr=stderr
        )


def pass_in(log: Path) -> str | None:
    """Return the line that the reaper logs at the end of a pass."""
    return next((line for line in log.read_text().splitlines() if "event=reaped" in line), None)


async def publish_while(store: Store, goes_on: Callable[[], bool]) -> list[float]:
    """Publish while it goes on. Returns how many seconds each publish took."""
    took = []
    while goes_on():
        started = time.perf_counter()
        await store.publish(_QUEUE, Draft(len(_BODY), zlib.crc32(_BODY), None, _BODY))
        took.append(time.perf_counter() - started)
    return took


def report(name: str, took: list[float]) -> None:
    took.sort()
    median, slow = (took[int(share * (len(took) - 1))] for share in (0.5, 0.99))
    print(
        f"publish {name}: {len(took) / sum(took):.0f}/s, median {1000 * median:.1f} ms, "
        f"99 % within {1000 * slow:.1f} ms, longest {1000 * took[-1]:.0f} ms"
    )


async def measure(root: Path, files: int, size: int) -> None:
    removed, log = root / "remove", root / "reaper.log"
    async with open_store(ServerConfig(root=root)) as store:
        await store.create_queue(_QUEUE)
        fill(removed, files, size)
        started = time.monotonic()
        reaper = start(removed, log)
        try:
            beside = await publish_while(store, lambda: pass_in(log) is None)
            seconds = time.monotonic() - started
        finally:
            reaper.terminate()
            reaper.wait()
        ends = time.monotonic() + seconds
        alone = await publish_while(store, lambda: time.monotonic() < ends)
    print(pass_in(log))
    print(f"{files} files in {seconds:.1f} s: {files / seconds:.0f}/s")
    report("beside the reaper", beside)
    report("without it", alone)


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True))
@click.option("--files", default=1_000_000, show_default=True)
@click.option("--size", default=100, show_default=True, help="Bytes of a removed message.")
def main(root: Path, files: int, size: int) -> None:
    """What a million removed messages cost the reaper, and the reaper a publisher."""
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        asyncio.run(measure(folder / "mq", files, size))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
