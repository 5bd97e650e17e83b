"""Message files written by hand, as a person, a crash or an older server would leave them."""

from __future__ import annotations

import os
import time
import uuid
import zlib
from pathlib import Path

from mq.ids import ServerIds
from mq.names import MessageId
from mq.properties import NO_PROPERTIES, Properties
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from mq.spool.message.trailer import pack_trailer

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS

_CLOCK_REALTIME_COARSE = 5
"""See clock_gettime(2). Python has no name for it."""


def seal_of(body: bytes, *, count: int = 0, lease: int = 0, published_ns: int = 0) -> Seal:
    return Seal(len(body), zlib.crc32(body), published_ns, count, lease)


def sealed_with(
    body: bytes, properties: Properties = NO_PROPERTIES, *, trailer: bytes | None = None
) -> tuple[Seal, bytes]:
    """Return the seal and all the bytes of a file with that body and those properties."""
    behind = pack_trailer(properties) if trailer is None else trailer
    seal = seal_of(body)._replace(trailer_length=len(behind), trailer_crc32=zlib.crc32(behind))
    return seal, body + behind


def write_message(
    path: Path,
    body: bytes = b"body",
    *,
    seal: Seal | None = None,
    due_in_seconds: float | None = None,
) -> Path:
    """Write a file at `path` with that seal, if any, and a stamp, if any."""
    path.write_bytes(body)
    if seal is not None:
        os.setxattr(path, SEAL_ATTRIBUTE, seal.pack())
    if due_in_seconds is not None:
        stamp(path, due_in_seconds)
    return path


def stamp(path: Path, due_in_seconds: float) -> None:
    due_ns = time.time_ns() + int(due_in_seconds * SECOND_NS)
    os.utime(path, ns=(due_ns, due_ns))


def read_seal(path: Path) -> Seal:
    seal = Seal.unpack(os.getxattr(path, SEAL_ATTRIBUTE))
    assert seal is not None
    return seal


def new_id() -> MessageId:
    """Return an id as our servers make them. Two calls are in no certain order."""
    return ServerIds(time.time_ns).next()


def foreign_id() -> MessageId:
    """Return an id that carries no time."""
    return MessageId(str(uuid.uuid4()))


def pass_a_tick() -> None:
    """Wait until the clock that gives files their times, which goes in ticks, shows this moment."""
    now = time.time_ns()
    while time.clock_gettime_ns(_CLOCK_REALTIME_COARSE) <= now:
        time.sleep(0.001)


def names_in(folder: Path) -> list[str]:
    """Return what `ls` shows. Hidden files are not messages."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def write_set(folder: Path, *ids: str) -> Path:
    """Write a set with members of the queue `orders`, as a crash leaves it."""
    folder.mkdir()
    for each in ids:
        write_message(folder / f"orders:{each}", seal=seal_of(b"body"))
    return folder


def delay(root: Path, queue: str, message_id: str, seconds: float = 1000) -> Path:
    """Move a ready message to `delay`, as a delayed publish leaves it."""
    source = root / "queues" / queue / message_id
    stamp(source, seconds)
    return source.rename(root / "delay" / f"{queue}:{message_id}")
