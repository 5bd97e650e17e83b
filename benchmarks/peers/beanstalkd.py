"""beanstalkd with its log on disk (-b), synced at each write (-f 0)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import Target, free_port, running

from mq.ctl.bench.generator import Script

NAME = "beanstalkd"
DURABILITY = "publish and remove synced (-b, -f 0); who has received a message is not kept"


def find() -> str | None:
    return shutil.which("beanstalkd")


@contextmanager
def running_server(program: str, folder: Path) -> Iterator[Target]:
    port = free_port()
    words = [program, "-l", "127.0.0.1", "-p", str(port), "-b", str(folder), "-f", "0"]
    with running(words, folder, port) as server:
        yield Target(NAME, [("127.0.0.1", port)], Beanstalk(), [server.pid])


class Beanstalk:
    """https://github.com/beanstalkd/beanstalkd/blob/master/doc/protocol.txt"""

    def read(self, buffer: bytes) -> int:
        line, separator, _ = buffer.partition(b"\r\n")
        if not separator:
            return 0
        length = len(line) + 2
        if line.startswith(b"RESERVED"):
            length += int(line.rpartition(b" ")[2]) + 2
        return length if len(buffer) >= length else 0

    def opening(self) -> Script:
        yield from ()

    def publish(self, body: bytes) -> bytes:
        return b"put 0 0 3600 %d\r\n%b\r\n" % (len(body), body)

    def receive(self) -> bytes:
        return b"reserve-with-timeout 0\r\n"

    def remove(self, message_id: bytes) -> bytes:
        return b"delete %b\r\n" % message_id

    def check(self, answer: bytes) -> None:
        if not answer.startswith((b"INSERTED", b"DELETED")):
            raise RuntimeError(answer.decode())

    def message_id(self, answer: bytes) -> bytes | None:
        if answer.startswith(b"TIMED_OUT"):
            return None
        if not answer.startswith(b"RESERVED"):
            raise RuntimeError(answer.decode())
        return answer.split(b" ", 2)[1]
