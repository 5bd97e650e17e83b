"""The errors of MQ, as a small tree. The text of each names the thing and the way out.

A lost race is a value, never one of these errors.
"""

from __future__ import annotations

from enum import IntEnum

_MOST_SHOWN = 100


class MQError(Exception):
    """The root of the tree. `str(error)` is a text for people."""


def shown(text: str) -> str:
    """Return a text that a client chose as the text of an error has it, in quotes. What is long is
    cut off: a batch may have a name of megabytes."""
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}..."


class InvalidName(MQError):
    """A malformed queue name or message id."""


class InvalidRequest(MQError):
    """A parameter or header that is unknown, repeated or malformed."""


class Unauthorized(MQError):
    """The request has no token that is known here. Nothing was done."""

    def __init__(self, detail: str, is_invalid: bool = False) -> None:
        super().__init__(detail)
        self.challenge = 'Bearer realm="mq"' + (', error="invalid_token"' if is_invalid else "")


class Forbidden(MQError):
    """The request's token does not allow this. Nothing was done."""

    def __init__(self, detail: str, scope: str) -> None:
        super().__init__(detail)
        self.challenge = f'Bearer realm="mq", error="insufficient_scope", scope="{scope}"'


class ForeignPage(MQError):
    """A web page of another site sent this. Nothing was done."""


class UnknownHost(MQError):
    """The request is for a host that this server is not known to be. Nothing was done."""


class InvalidBatch(MQError):
    """A line of a batch is wrong. Nothing of the batch was stored."""


class UnsupportedMediaType(MQError):
    """The body does not have the type that this request needs."""


class ExpectationFailed(MQError):
    """The `Expect` header asks for something other than 100-continue."""


class BodyUnreadable(MQError):
    """The body ended early or broke its own framing. Nothing was stored."""


class RequestTimeout(BodyUnreadable):
    """The body came too slowly. Nothing was stored."""


class PropertiesTooLarge(MQError):
    """The properties of a message are over their limit. Nothing was stored."""


class PropertiesUnsupported(MQError):
    """The root's file system has no attributes, so it keeps no properties. Nothing was stored."""


class BodyTooLarge(MQError):
    """The body is over `--max-body`. Nothing was stored."""


class QueueNotFound(MQError):
    """There is no such queue."""


class MessageNotFound(MQError):
    """The queue has no such message."""


class QueueIsFifo(MQError):
    """The queue is a FIFO queue: its messages are sent and received through the SQS gateway alone.
    Nothing was done."""


class IdTaken(MQError):
    """A message was published under that id with another body. Nothing was stored."""


class TooOld(MQError):
    """The queue that a message was to be moved to would remove it at once. It stays where it is."""


class LeaseMismatch(MQError):
    """The lease named in `If-Match` is not the current one. Nothing was changed."""


class ClaimError(MQError):
    """A Spark query cannot go on with its group of claims, or with what it has staged."""


class StoreUnavailable(MQError):
    """The store cannot promise durability now, or is full, busy or stopping.

    The outcome of the operation is unknown. No success was reported. `full` names the queue whose
    limit leaves no room for the messages; nothing was done then.
    """

    def __init__(
        self, detail: str, retry_after_seconds: int = 1, *, full: str | None = None
    ) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
        self.full = full


class QueueLocked(StoreUnavailable):
    """A purge has the queue to itself for a moment. Nothing was done."""


class ExitCode(IntEnum):
    """How a process ends; the values from 64 on are those of BSD's sysexits.h."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    EMPTY = 3
    NOT_FOUND = 4
    REFUSED = 5
    FORMAT = 65
    UNAVAILABLE = 69
    SOFTWARE = 70
    SYSTEM = 71
    ROOT = 73
    OUTPUT = 74
    TRY_AGAIN = 75
    OWNER = 77
    FOLDERS = 78


class CommandFailed(MQError):
    """A command cannot do what it was asked to do. `exit_code` says what kind of error it is."""

    def __init__(self, exit_code: ExitCode, detail: str) -> None:
        super().__init__(detail)
        self.exit_code = exit_code


class StartRefused(CommandFailed):
    """The process cannot start."""
