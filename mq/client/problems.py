"""From an answer, or a certificate, to the error that it stands for."""

from __future__ import annotations

import json

from mq.client.errors import (
    BadRequest,
    BodyTooLarge,
    ClientError,
    Forbidden,
    IdTaken,
    LeaseLost,
    MessageNotFound,
    Problem,
    QueueNotFound,
    Refused,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from mq.client.wire import Answer
from mq.connection import Address

_PREFIX = "urn:mq:problem:"

_BY_TYPE: dict[str, type[Refused]] = {
    f"{_PREFIX}queue-not-found": QueueNotFound,
    f"{_PREFIX}message-not-found": MessageNotFound,
}
_BY_STATUS: dict[int, type[Refused]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    409: IdTaken,
    412: LeaseLost,
    413: BodyTooLarge,
}
_TRY_AGAIN = frozenset({408, 429, 502, 503, 504})
"""Ours is 503; a proxy may say the others."""


def error_of(answer: Answer) -> ClientError:
    """What an answer whose status is no success stands for."""
    status, reason, headers, body, _ = answer
    problem = _problem_of(status, reason, body)
    text = f"{problem.detail} ({status})"
    if status in _TRY_AGAIN:
        return Unavailable(text, problem, _seconds(headers.get("retry-after")))
    kind = _BY_TYPE.get(problem.type) or _BY_STATUS.get(status)
    if kind is not None:
        return kind(text, problem)
    if problem.type.startswith(_PREFIX):
        return Refused(text, problem)
    return UnexpectedAnswer(
        f"what answers is no server of MQ: {status} {reason}; look at the URL", problem
    )


def _problem_of(status: int, reason: str, body: bytes) -> Problem:
    try:
        found = json.loads(body)
        return Problem(
            str(found["type"]), str(found["title"]), status, str(found.get("detail", ""))
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        # RFC 9457, section 4.2.1: nothing is known but the status.
        return Problem("about:blank", reason, status, f"{status} {reason}, without a reason")


def _seconds(retry_after: str | None) -> float | None:
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None


def untrusted(address: Address, error: Exception) -> UnexpectedAnswer:
    """Trying again would not help."""
    why = getattr(error, "verify_message", error)
    return UnexpectedAnswer(
        f"the certificate of {address.url} is not trusted: {why}; give its issuer's as ca_file"
    )
