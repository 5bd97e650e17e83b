"""What a receiver is told about a dead letter: where it came from, and why it is one."""

from __future__ import annotations

from mq.spool.message.burial import Burial


def burial_headers(burial: Burial) -> dict[str, str]:
    return {"X-Dead-From": burial.queue, "X-Dead-Reason": burial.reason}


def burial_fields(burial: Burial | None) -> dict[str, object]:
    """Return what the headers say as members of a line."""
    if burial is None:
        return {}
    return {"dead_from": burial.queue, "dead_reason": burial.reason}
