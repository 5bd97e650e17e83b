"""RabbitMQ: a durable queue, persistent messages, publisher confirms.

Receive is `basic.get`. An acknowledgement has no answer of its own, so a question after it on the
same channel tells when the server has taken it.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import Target, free_port, running, stop

from mq.ctl.bench.generator import Script

NAME = "RabbitMQ"
DURABILITY = "durable queue; publish synced before its confirm, remove without a sync of its own"

_QUEUE = b"bench"
_SCRIPTS = "/usr/lib/rabbitmq/bin"
"""What Debian has in /usr/sbin works for one user alone."""

_METHOD, _HEADER, _BODY = 1, 2, 3
_GET_OK = (60, 71)
_GET_EMPTY = (60, 72)
_DONE = {(60, 80), (50, 11)}
"""What answers a publish and a removal: basic.ack, queue.declare-ok."""


def find() -> str | None:
    return shutil.which("rabbitmq-server", path=f"{_SCRIPTS}:{os.environ['PATH']}")


@contextmanager
def running_server(program: str, folder: Path) -> Iterator[Target]:
    port, names = free_port(), free_port()
    settings: dict[str, object] = {
        "HOME": folder,
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": free_port(),
        "RABBITMQ_MNESIA_BASE": folder / "mnesia",
        "RABBITMQ_LOG_BASE": folder,
        "RABBITMQ_PID_FILE": folder / "pid",
        "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
        "RABBITMQ_CONFIG_FILE": folder / "none",
        "ERL_EPMD_PORT": names,
        # So the script becomes the server, whose process id is then the one that is known here.
        "RUNNING_UNDER_SYSTEMD": "true",
    }
    environment = os.environ | {name: str(value) for name, value in settings.items()}
    # Erlang's own of these would stay behind.
    epmd = subprocess.Popen(["epmd", "-port", str(names), "-address", "127.0.0.1"])
    try:
        with running([program], folder, port, environment=environment) as server:
            yield Target(NAME, [("127.0.0.1", port)], Amqp(), [server.pid])
    finally:
        stop([epmd])


class Amqp:
    """https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf"""

    def read(self, buffer: bytes) -> int:
        at, missing = 0, 1
        while missing and len(buffer) >= at + 7:
            kind, _, size = struct.unpack_from("!BHI", buffer, at)
            if kind == _METHOD:
                missing = 2 if struct.unpack_from("!HH", buffer, at + 7) == _GET_OK else 0
            elif kind == _HEADER:
                missing = int(any(buffer[at + 11 : at + 19]))
            else:
                missing = 0
            at += size + 8
        return at if not missing and len(buffer) >= at else 0

    def opening(self) -> Script:
        start = b"\0\0\0\0" + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US")
        tuned = struct.pack("!HIH", 2047, 131072, 0)
        expect((yield b"AMQP\0\0\x09\x01"), (10, 10))
        expect((yield method(0, 10, 11, start)), (10, 30))
        vhost = short(b"/") + b"\0\0"
        expect((yield method(0, 10, 31, tuned) + method(0, 10, 40, vhost)), (10, 41))
        expect((yield method(1, 20, 10, b"\0")), (20, 11))
        expect((yield method(1, 85, 10, b"\0")), (85, 11))
        expect((yield declare(b"\x02")), (50, 11))

    def publish(self, body: bytes) -> bytes:
        header = struct.pack("!HHQHB", 60, 0, len(body), 0x1000, 2)
        to = method(1, 60, 40, b"\0\0" + short(b"") + short(_QUEUE) + b"\0")
        return to + frame(_HEADER, 1, header) + frame(_BODY, 1, body)

    def receive(self) -> bytes:
        return method(1, 60, 70, b"\0\0" + short(_QUEUE) + b"\0")

    def remove(self, message_id: bytes) -> bytes:
        return method(1, 60, 80, message_id + b"\0") + declare(b"\x03")

    def check(self, answer: bytes) -> None:
        if method_of(answer) not in _DONE:
            raise RuntimeError(repr(answer))

    def message_id(self, answer: bytes) -> bytes | None:
        """Return the number of the delivery, on its channel."""
        if method_of(answer) == _GET_EMPTY:
            return None
        expect(answer, _GET_OK)
        return answer[11:19]


def frame(kind: int, channel: int, content: bytes) -> bytes:
    return struct.pack("!BHI", kind, channel, len(content)) + content + b"\xce"


def method(channel: int, group: int, number: int, arguments: bytes) -> bytes:
    return frame(_METHOD, channel, struct.pack("!HH", group, number) + arguments)


def declare(flags: bytes) -> bytes:
    """Return a frame that declares the durable queue, or only asks for it."""
    return method(1, 50, 10, b"\0\0" + short(_QUEUE) + flags + b"\0\0\0\0")


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def long(text: bytes) -> bytes:
    return struct.pack("!I", len(text)) + text


def method_of(answer: bytes) -> tuple[int, int]:
    group, number = struct.unpack_from("!HH", answer, 7)
    return group, number


def expect(answer: bytes, wanted: tuple[int, int]) -> None:
    if method_of(answer) != wanted:
        raise RuntimeError(repr(answer))
