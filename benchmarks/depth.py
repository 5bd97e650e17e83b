"""Whether the cost of a message depends on how many others wait.

    python benchmarks/depth.py ROOT [--depths 0,1000000]

For each depth: fill a queue with that many sealed messages, start `mq` on it, take the time of the
first look, which lists the folder, then the rates of `throughput.py` on that very queue.
ROOT needs an inode and a block a message.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import click
import uvloop
from throughput import LISTENING, request, run_phase

from mq.config import ServerConfig
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.files import Files
from mq.spool.queues import make_queue
from mq.spool.root import open_root
from mq.store.publish import Draft, publish
from mq.store.workspace import Workspace

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
            for _unsynced in publish(work, queue, draft):
                pass
    spool.files.sync_file_system(spool.fd(Folder.QUEUES))
    spool.close()


async def measure(port: int, messages: int) -> dict[str, float]:
    started = time.perf_counter()
    await run_phase([port], [request("GET", "/bench")], b"200", 1)
    found = {"first look, s": time.perf_counter() - started}
    publish_one = request("POST", "/bench/messages", _BODY)
    found["publish/s"], _ = await run_phase([port], [publish_one] * messages, b"201", 64)
    receive_one = request("GET", "/bench/messages")
    found["receive/s"], ids = await run_phase([port], [receive_one] * messages, b"200", 64)
    remove = [request("DELETE", f"/bench/messages/{message_id.decode()}") for message_id in ids]
    found["remove/s"], _ = await run_phase([port], remove, b"202", 64)
    return found


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True))
@click.option("--depths", default="0,1000000,0", show_default=True)
@click.option("--messages", default=5000, show_default=True)
def main(root: Path, depths: str, messages: int) -> None:
    """Rates at different depths of one queue."""
    for depth in map(int, depths.split(",")):
        folder = Path(tempfile.mkdtemp(dir=root))
        fill(folder / "mq", depth)
        started = time.perf_counter()
        command = [sys.executable, "-m", "mq", f"--root={folder}/mq", "--port=0"]
        server = subprocess.Popen([*command, "--visibility=600"], stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            port = next(int(m[1]) for line in server.stderr if (m := LISTENING.search(line)))
            found = {"start, s": time.perf_counter() - started}
            found |= uvloop.run(measure(port, messages))
            status = Path(f"/proc/{server.pid}/status").read_text()
            found["peak memory, MiB"] = int(status.split("VmHWM:")[1].split()[0]) / 1024
        finally:
            server.terminate()
            server.wait()
            shutil.rmtree(folder)
        print(f"depth {depth:8}: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))


if __name__ == "__main__":
    main()
