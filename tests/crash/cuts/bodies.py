"""Bodies that are known again: each follows from its token, with which it begins."""

from __future__ import annotations

import random
import uuid


def new_token() -> str:
    return uuid.uuid4().hex


def body_of(token: str) -> bytes:
    """Mostly small; every twentieth is too large for the memory."""
    source = random.Random(token)
    size = (
        140_000 + source.randrange(100_000) if source.randrange(20) == 0 else source.randrange(900)
    )
    return token.encode() + source.randbytes(size)


def token_of(body: bytes) -> str | None:
    """The token of a whole body; None for a torn one."""
    token = body[:32].decode("ascii", "replace")
    return token if body_of(token) == body else None
