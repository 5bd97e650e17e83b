"""What can go wrong, as a small tree. The text of each names the thing and the way out.

A lost race is a value, never one of these.
"""

from __future__ import annotations

from enum import IntEnum


class MQError(Exception):
    """The root of the tree. `str(error)` is written for the person who reads it."""


class InvalidName(MQError):
    """A queue name or message id that is none."""


class InvalidRequest(MQError):
    """A parameter or header that is unknown, repeated or malformed."""


class Unauthorized(MQError):
    """The request brings no token that is known here. Nothing was done."""

    def __init__(self, detail: str, is_invalid: bool = False) -> None:
        super().__init__(detail)
        self.challenge = 'Bearer realm="mq"' + (', error="invalid_token"' if is_invalid else "")


class Forbidden(MQError):
    """The request's token is not for this. Nothing was done."""

    def __init__(self, detail: str, scope: str) -> None:
        super().__init__(detail)
        self.challenge = f'Bearer realm="mq", error="insufficient_scope", scope="{scope}"'


class InvalidBatch(MQError):
    """A line of a batch is wrong. Nothing of the batch was stored."""


class UnsupportedMediaType(MQError):
    """The body is not of the type that is asked for."""


class ExpectationFailed(MQError):
    """The `Expect` header asks for something other than 100-continue."""


class BodyUnreadable(MQError):
    """The body ended early or broke its own framing. Nothing was stored."""


class RequestTimeout(BodyUnreadable):
    """The body came too slowly. Nothing was stored."""


class BodyTooLarge(MQError):
    """The body is over `--max-body`. Nothing was stored."""


class QueueNotFound(MQError):
    """There is no such queue."""


class MessageNotFound(MQError):
    """The queue has no such message."""


class IdTaken(MQError):
    """A message was published under that id with another body. Nothing was stored."""


class LeaseMismatch(MQError):
    """The lease named in `If-Match` is not the current one. Nothing was changed."""


class ClaimError(MQError):
    """A Spark query cannot go on with its group of claims, or with what it has staged."""


class StoreUnavailable(MQError):
    """The store cannot promise durability right now, or is full, busy or stopping.

    The outcome of the operation is unknown; it never was a success.
    """

    def __init__(self, detail: str, retry_after_seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


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
    TRY_AGAIN = 75
    OWNER = 77
    FOLDERS = 78


EXIT_CODES = {
    ExitCode.OK: "stopped as asked",
    ExitCode.USAGE: "a flag has a bad value",
    ExitCode.FORMAT: "the root has an unknown format version",
    ExitCode.UNAVAILABLE: "the address or port cannot be bound",
    ExitCode.SOFTWARE: "a defect: please report it",
    ExitCode.SYSTEM: "this system lacks something MQ needs",
    ExitCode.ROOT: "a folder cannot be made, read or written",
    ExitCode.OWNER: "the root belongs to somebody else",
    ExitCode.FOLDERS: "the folders are on different file systems",
}
"""What `--help` says of each exit code of a process that stays."""

CTL_EXIT_CODES = EXIT_CODES | {
    ExitCode.OK: "done",
    ExitCode.FINDINGS: "fsck: findings remain",
    ExitCode.USAGE: "a flag or argument is wrong, or needs another way in",
    ExitCode.EMPTY: "empty: there is no message to show",
    ExitCode.NOT_FOUND: "no such queue or message",
    ExitCode.REFUSED: "refused; nothing was changed",
    ExitCode.UNAVAILABLE: "no server answers there, or not as MQ does",
    ExitCode.TRY_AGAIN: "not possible now, the outcome may be unknown: try again",
}
"""What `mqctl --help` says of each exit code."""


class CommandFailed(MQError):
    """A command cannot do what it was asked; `exit_code` says which kind of trouble it is."""

    def __init__(self, exit_code: ExitCode, detail: str) -> None:
        super().__init__(detail)
        self.exit_code = exit_code


class StartRefused(CommandFailed):
    """The process cannot start."""
