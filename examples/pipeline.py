"""A pipeline from end to end, on a server of its own.

    pip install 'mq-server[spark]'
    python examples/pipeline.py [MESSAGES] [FOLDER]

It publishes messages (100,000) to the queue `orders`, archives them to a lake, counts them by SQL,
replays the lake to the queue `orders.again`, compares every byte, and writes a report. All of it is
in FOLDER, by default a new one below /tmp, and stays there; the server ends with the script.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mq.client import Client

LISTENING = re.compile(r"event=listening url=(\S+)")
TRIES = 3
ITEMS = ("tea", "coffee", "milk", "sugar")


def main(messages: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with running_server(folder) as url:
        published = publish(url, messages)
        said(f"published {messages:,} messages, digest {published[:16]}")
        place = ["--url", url, "--staging", str(folder / "staging")]
        lake = str(folder / "lake")
        pipeline("archive", *place, "--queue=orders", "--lake", lake, "--batch=25000",
                 "--schema=item string, price double")  # fmt: skip
        counted = count_by_sql(lake)
        pipeline("replay", *place, "--lake", lake, "--to=orders.again")
        page = folder / "report.html"
        pipeline("report", *place, "--queue=orders,orders.again", "--html", str(page))
        received = digest(receive_all(url, "orders.again"))
    if counted != messages or received != published:
        sys.exit(f"they differ: {counted:,} in the lake, digest {received[:16]}")
    said(f"{counted:,} messages in the lake; those replayed are the same, byte by byte")
    said(f"report: {page}")


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """A server on a free port; its address. It ends with the block."""
    log = folder / "mq.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "mq", "--standalone", f"--root={folder / 'root'}", "--port=0",
             "--admin="],
            stderr=stderr, env={k: v for k, v in os.environ.items() if not k.startswith("MQ_")},
        )  # fmt: skip
    try:
        while (found := LISTENING.search(log.read_text())) is None:
            if process.poll() is not None:
                sys.exit(f"the server did not start: {log.read_text()}")
            time.sleep(0.1)
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def publish(url: str, messages: int) -> str:
    """Messages of JSON, and some that are not; returns the digest of all of them."""
    chance = random.Random(21)

    def body(number: int) -> bytes:
        if number % 1000 == 999:
            return chance.randbytes(64)
        item, price = chance.choice(ITEMS), chance.randint(100, 900) / 100
        return f'{{"item": "{item}", "price": {price}, "number": {number}}}'.encode()

    bodies = [body(number) for number in range(messages)]
    with Client(url) as mq:
        for queue in ("orders", "orders.again"):
            mq.queue(queue).create()
        mq.queue("orders").publish_many(bodies)
    return digest(bodies)


def receive_all(url: str, queue: str) -> Iterator[bytes]:
    """Receive and acknowledge until the queue is empty."""
    with Client(url) as mq:
        while received := mq.queue(queue).receive_many(1000, visibility=600):
            yield from (each.body for each in received)
            mq.queue(queue).ack_many({each.id: each.lease for each in received})


def digest(bodies: Iterable[bytes]) -> str:
    """Of each body, whatever their order is."""
    each = sorted(hashlib.sha256(body).digest() for body in bodies)
    return hashlib.sha256(b"".join(each)).hexdigest()


def count_by_sql(lake: str) -> int:
    """In a process of its own, as each command has its own Spark."""
    query = (
        f"SELECT coalesce(body.item, 'not JSON') AS item, count(*) AS messages, "
        f"round(sum(body.price), 2) AS revenue FROM parquet.`{lake}` GROUP BY 1 ORDER BY 1"
    )
    said(query)
    found = subprocess.run(
        [sys.executable, "-c", COUNT, query], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    table, _, count = found.rstrip().rpartition("\n")
    print(table)
    return int(count)


COUNT = """
import sys
from pyspark_mq.pipeline.session import open_session
rows = open_session("count").sql(sys.argv[1])
rows.show()
print(sum(row.messages for row in rows.collect()))
"""


def pipeline(*arguments: str) -> None:
    """Run a command; again if it failed for now, as on a machine that is too busy for Spark."""
    said(f"mq-pipeline {shlex.join(arguments)}")
    command = [sys.executable, "-m", "pyspark_mq.pipeline", *arguments]
    for _ in range(TRIES):
        code = subprocess.run(command, check=False).returncode
        if code != os.EX_TEMPFAIL:
            break
    if code:
        sys.exit(code)


def said(text: str) -> None:
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A pipeline from end to end, on its own server.")
    parser.add_argument("messages", nargs="?", type=int, default=100_000, help="how many: 100,000")
    parser.add_argument("folder", nargs="?", type=Path, help="stays; by default a new one")
    given = parser.parse_args()
    main(given.messages, given.folder or Path(tempfile.mkdtemp(prefix="mq-pipeline-")))
