"""The errors of a client, as a small tree."""

from __future__ import annotations

from typing import NamedTuple

from mq.errors import MQError


class Problem(NamedTuple):
    """What a server says about an error (RFC 9457). `detail` is for people, and its wording may
    change; docs/protocol.md lists the types."""

    type: str
    title: str
    status: int
    detail: str


class ClientError(MQError):
    """The root of the tree. `problem` is what the server said, or None if it said nothing."""

    def __init__(self, text: str, problem: Problem | None = None) -> None:
        super().__init__(text)
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are copied by calling their class with their text, and the classes below take
        # more. An error that cannot be unpickled hangs a pool of processes.
        return _copy, (type(self), self.args), self.__dict__


def _copy(kind: type[ClientError], args: tuple[object, ...]) -> ClientError:
    """Return an error with nothing but its text; what else it has is set afterwards."""
    return kind.__new__(kind, *args)


class NoAnswer(ClientError):
    """The server could not be reached, or went away before its answer was whole.

    The outcome of the request is unknown. All tries within the retry time ended like this.
    `is_unsent` says that the last try found no connection, so that nothing was sent; `is_cut_off`
    that its answer had begun; `has_parted` that it was sent on a connection of an earlier request,
    which the server closed without a word.
    """

    def __init__(
        self,
        text: str,
        *,
        is_unsent: bool = False,
        is_cut_off: bool = False,
        has_parted: bool = False,
    ) -> None:
        super().__init__(text)
        self.is_unsent = is_unsent
        self.is_cut_off = is_cut_off
        self.has_parted = has_parted


class UnexpectedAnswer(ClientError):
    """The answer is not from MQ: the URL is wrong, or there is a proxy in between.

    Trying again would not help. `fact` is the text without the way out.
    """

    def __init__(
        self, fact: str, problem: Problem | None = None, way_out: str | None = "look at the URL"
    ) -> None:
        super().__init__(fact if way_out is None else f"{fact}; {way_out}", problem)
        self.fact = fact


class ClientClosed(ClientError):
    """The client was closed before the request was answered."""

    def __init__(self) -> None:
        super().__init__("the client is closed; make another one")


class Refused(ClientError):
    """The server refused. `problem` says why. Nothing was changed, except perhaps after a 500,
    which is a defect of the server."""


class BadRequest(Refused):
    """400 or 431: a parameter, name, header or property is wrong."""


class Unauthorized(Refused):
    """401: the server wants a token that it knows."""


class Forbidden(Refused):
    """403: the token is not for this, or not for this queue."""


class QueueNotFound(Refused):
    """404: there is no such queue."""


class MessageNotFound(Refused):
    """404: the queue has no such message."""


class IdTaken(Refused):
    """409: another body, or other properties, were published under that id."""


class TooOld(Refused):
    """409: the queue that a message was to be moved to would remove it at once, because of its
    `ttl`. It stays where it is."""


class LeaseLost(Refused):
    """404 or 412: the lease on a message is over, and another receiver has or had the message.

    Drop the result, or expect the message to be handled twice. `problem` is None if the lease may
    be over because it could not be renewed in time; the cause of this error says why.
    """


class BodyTooLarge(Refused):
    """413: the body is over the server's `--max-body`."""


class Unavailable(ClientError):
    """503 and the like: not now. The outcome is unknown. All tries within the retry time ended like
    this.

    `retry_after_seconds` is how long the server asked to wait, or None if it did not say.
    """

    def __init__(self, text: str, problem: Problem, retry_after_seconds: float | None) -> None:
        super().__init__(text, problem)
        self.retry_after_seconds = retry_after_seconds
