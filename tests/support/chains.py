"""Chains of file calls as operations use them."""

from __future__ import annotations

from typing import Any

from mq.disk.calls import (
    ATTRIBUTE,
    CLOSE,
    LINK,
    LOCK,
    OPEN_MESSAGE,
    OPEN_UNNAMED,
    READ,
    RENAME,
    SET_ATTRIBUTE,
    STAMP,
    STATUS,
    STATUS_OF,
    SYNC,
    WRITE,
    Chain,
)

BODY = b"a body"
SEAL = "user.mq"
LIMIT = 1000


def put(folder: int, name: str, body: Any = BODY) -> Chain:
    """Return the chain that publishes a message."""
    return (
        (OPEN_UNNAMED, folder, 0o600),
        (WRITE, ~0, body),
        (SET_ATTRIBUTE, ~0, SEAL, b"seal"),
        (STAMP, ~0, 5_000_000_007),
        (SYNC, ~0),
        (LOCK, ~0),
        (LINK, ~0, folder, name),
    )


def get(folder: int, name: str) -> Chain:
    """Return the chain that receives a message, which is closed at the end."""
    return (
        (OPEN_MESSAGE, folder, name),
        (LOCK, ~0),
        (STATUS, ~0),
        (STATUS_OF, folder, name),
        (ATTRIBUTE, ~0, SEAL),
        (ATTRIBUTE, ~0, "user.other"),
        (READ, ~0, 2, LIMIT),
        (RENAME, folder, name, folder, f"{name}-received"),
        (CLOSE, ~0),
    )
