"""Turn an answer, or a certificate, into the error that it means."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from mq.client.connection import ServerAddress, is_refused_handshake, reason_of
from mq.client.errors import (
    BadRequest,
    BodyTooLarge,
    ClientError,
    Forbidden,
    IdTaken,
    LeaseLost,
    MessageNotFound,
    NoAnswer,
    Problem,
    QueueNotFound,
    Refused,
    TooOld,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from mq.client.own_ids import read_http_date
from mq.client.wire import LONGEST_SECONDS, ServerAnswer, json_in

_PREFIX = "urn:mq:problem:"
_LENGTH = re.compile("[0-9]{1,18}")
NO_TYPE = "about:blank"
"""The type of an error whose answer says no more than its status."""

_BY_TYPE: dict[str, type[Refused]] = {
    f"{_PREFIX}queue-not-found": QueueNotFound,
    f"{_PREFIX}message-not-found": MessageNotFound,
    f"{_PREFIX}fifo-queue": Refused,
    f"{_PREFIX}too-old": TooOld,
}
_BY_STATUS: dict[int, type[Refused]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    409: IdTaken,
    412: LeaseLost,
    413: BodyTooLarge,
    431: BadRequest,
}
_TRY_AGAIN = frozenset({408, 429, 502, 503, 504})
"""MQ answers 503; a proxy may answer the others."""

_USE_ITS_NAME = "use a name that it has"
_CERTIFICATE_WAYS_OUT = {
    9: "look at the clocks of this machine and of the one that made it",
    10: "renew it and send the server SIGHUP, or look at this machine's clock",
    62: _USE_ITS_NAME,
    64: _USE_ITS_NAME,
}
"""By OpenSSL's numbers (X509_STORE_CTX_get_error(3)): not yet valid, expired, a certificate of
another host, of another address."""


def error_of(answer: ServerAnswer) -> ClientError:
    """Return the error for an answer whose status does not say that the request was done."""
    status, reason, headers, body, *_ = answer
    problem = _problem_of(status, reason, body)
    text = f"{problem.detail} ({status})"
    if status in _TRY_AGAIN:
        return Unavailable(text, problem, _seconds_to_wait(headers))
    kind = _BY_TYPE.get(problem.type) or _BY_STATUS.get(status)
    if kind is not None:
        return kind(text, problem)
    if problem.type.startswith(_PREFIX):
        return Refused(text, problem)
    return UnexpectedAnswer(f"what answers is not a server of MQ: {status} {reason}", problem)


def require_end(answer: ServerAnswer) -> None:
    """Raise UnexpectedAnswer for an answer that ends where its connection does: one that broke off
    would pass for a whole one, and half of a message would be acknowledged."""
    headers = answer.headers
    if answer.status == HTTPStatus.NO_CONTENT or _LENGTH.fullmatch(
        headers.get("content-length", "")
    ):
        return
    if "chunked" not in headers.get("transfer-encoding", "").lower():
        raise UnexpectedAnswer(
            "the answer does not say where it ends, so a part of it would pass for all of it; let "
            "the proxy in between keep Content-Length",
            way_out=None,
        )


def _problem_of(status: int, reason: str, body: bytes) -> Problem:
    try:
        found = json_in(body)
        return Problem(
            str(found["type"]), str(found["title"]), status, str(found.get("detail", ""))
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        # RFC 9457, section 4.2.1: only the status is known.
        return Problem(NO_TYPE, reason, status, f"{status} {reason}, without a reason")


def _seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return how long `Retry-After` asks to wait. It says seconds, or a time by the clock of
    the `Date` (RFC 9110, section 10.2.3)."""
    retry_after = headers.get("retry-after", "").strip()
    if retry_after.isdecimal():
        return min(float(retry_after), LONGEST_SECONDS)
    due = read_http_date(retry_after)
    now = read_http_date(headers.get("date", "")) or datetime.now(UTC)
    return None if due is None else min(max((due - now).total_seconds(), 0.0), LONGEST_SECONDS)


def not_connected(address: ServerAddress, error: Exception) -> NoAnswer | UnexpectedAnswer:
    """Return the error for a server that cannot be connected to. Nothing was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return UnexpectedAnswer(
            f"the certificate of {address.url} is not trusted: {error.verify_message.rstrip('.')}",
            way_out=certificate_way_out(error, "give its issuer's as ca_file"),
        )
    if is_refused_handshake(error):
        return UnexpectedAnswer(f"no TLS with {address.url}: {reason_of(error)}", way_out=None)
    return NoAnswer(f"{address.url} does not answer: {reason_of(error)}", is_unsent=True)


def certificate_way_out(error: ssl.SSLCertVerificationError, trust: str) -> str:
    """Return what helps: `trust`, unless something else than its issuer is wrong."""
    return _CERTIFICATE_WAYS_OUT.get(error.verify_code, trust)


def no_answer(address: ServerAddress, error: Exception, *, has_parted: bool) -> NoAnswer:
    """Return the error for a connection on which no answer came."""
    text = f"{address.url} does not answer: {reason_of(error)}"
    return NoAnswer(text, has_parted=has_parted)


def cut_off(address: ServerAddress, error: Exception) -> NoAnswer:
    """Return the error for an answer that had begun and broke off."""
    return NoAnswer(f"{address.url} did not answer to the end: {reason_of(error)}", is_cut_off=True)


def too_large(address: ServerAddress, error: Exception) -> UnexpectedAnswer:
    """Return the error for an answer that is longer than any memory, or says so."""
    return UnexpectedAnswer(
        f"the answer of {address.url} does not fit into memory: {reason_of(error)}", way_out=None
    )


def not_http(address: ServerAddress, error: Exception) -> UnexpectedAnswer:
    return UnexpectedAnswer(
        f"what answers at {address.url} does not speak HTTP: {reason_of(error)}"
    )
