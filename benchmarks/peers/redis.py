"""Redis: a stream with a consumer group, its file of commands synced at each of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import Target, free_port, running

from mq.ctl.bench.generator import Script

NAME = "Redis"
DURABILITY = "stream with a group; all three synced (appendonly, appendfsync always)"

_STREAM, _GROUP = "bench", "workers"
_REMOVE = (
    "redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) return redis.call('XDEL', KEYS[1], ARGV[2])"
)


def find() -> str | None:
    return shutil.which("redis-server")


@contextmanager
def running_server(program: str, folder: Path) -> Iterator[Target]:
    port = free_port()
    words = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder),
             "--appendonly", "yes", "--appendfsync", "always", "--save", ""]  # fmt: skip
    with running(words, folder, port) as server:
        yield Target(NAME, [("127.0.0.1", port)], Redis(), [server.pid])


class Redis:
    """https://redis.io/docs/latest/develop/reference/protocol-spec/ (RESP 2)"""

    def read(self, buffer: bytes) -> int:
        return max(0, end_of_value(buffer, 0))

    def opening(self) -> Script:
        # The second one to ask is told that the group exists.
        yield command("XGROUP", "CREATE", _STREAM, _GROUP, "$", "MKSTREAM")

    def publish(self, body: bytes) -> bytes:
        return command("XADD", _STREAM, "*", "body", body)

    def receive(self) -> bytes:
        return command("XREADGROUP", "GROUP", _GROUP, "me", "COUNT", "1", "STREAMS", _STREAM, ">")

    def remove(self, message_id: bytes) -> bytes:
        return command("EVAL", _REMOVE, "1", _STREAM, _GROUP, message_id)

    def check(self, answer: bytes) -> None:
        # The id of what was added, or the number of those that were removed.
        if not answer.startswith((b"$", b":1")):
            raise RuntimeError(answer.decode())

    def message_id(self, answer: bytes) -> bytes | None:
        if answer.startswith(b"*-1"):
            return None
        # An array of streams, each with its name and messages, each with its id and fields.
        fields = answer.split(b"\r\n", 8)
        if len(fields) < 9 or not answer.startswith(b"*1"):
            raise RuntimeError(answer.decode())
        return fields[7]


def command(*words: str | bytes) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


def end_of_value(buffer: bytes, at: int) -> int:
    """Return where the value that begins at `at` ends; -1 if that has not come yet."""
    end = buffer.find(b"\r\n", at)
    if end < 0:
        return -1
    kind, after = buffer[at : at + 1], end + 2
    if kind not in b"$*":
        return after
    count = int(buffer[at + 1 : end])
    if kind == b"$":
        after += count + 2 if count >= 0 else 0
        return after if after <= len(buffer) else -1
    for _ in range(max(0, count)):
        after = end_of_value(buffer, after)
        if after < 0:
            return -1
    return after
