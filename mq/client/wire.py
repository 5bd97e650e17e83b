"""One request and its answer, as data.

What a client does is written once, as generators that do no input and output: they yield a Request
and are sent a ServerAnswer, or yield a ClientPause. The blocking client and the asynchronous one
run them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from mq import __version__
from mq.client import arguments
from mq.config import CLIENT_TIMEOUT_SECONDS, SMALL_BODY_BYTES
from mq.names import MessageId, QueueName
from mq.times import seconds_text

T = TypeVar("T")

USER_AGENT = f"mq-client/{__version__}"

SUCCESS = range(200, 300)
"""The statuses that say that a request was done (RFC 9110, section 15.3)."""

LONGEST_SECONDS = 365 * 86_400.0
"""Upper bound on a pause and on a timeout: no thread or socket can wait for centuries."""

CLOSING_SECONDS = 1.0
"""How soon a pause between two tries ends once the client is closed."""

_SHORTEST_SECONDS = 1e-9
"""The server takes nine decimals."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `target` is path and query; `wait_seconds` is how long the server may take on
    purpose, and `timeout_seconds` how much longer the next bytes may take. Without `wants_body` a
    large body of the answer is not read, which costs the connection. Any other status than those
    in `done` is an error. `is_repeatable` says that sending it twice does what sending it once
    does."""

    method: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    done: Collection[int] = SUCCESS
    wait_seconds: float = 0.0
    timeout_seconds: float = CLIENT_TIMEOUT_SECONDS
    wants_body: bool = True
    is_repeatable: bool = True

    @property
    def patience_seconds(self) -> float:
        return self.timeout_seconds + self.wait_seconds

    def wants_all_of(self, status: int, body_bytes: int | None) -> bool:
        """Return whether the body of an answer is to be read; `body_bytes` is None if its length
        was not said."""
        is_small = body_bytes is not None and body_bytes <= SMALL_BODY_BYTES
        return self.wants_body or is_small or status >= 300


class ServerAnswer(NamedTuple):
    """An answer. `headers` has names in lower case; `came_at` is when the head came, by the
    monotonic clock. With `is_repeated` an earlier try, whose answer was lost, may have done what
    was asked."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    came_at: float
    is_repeated: bool = False


def json_in(text: bytes) -> Any:
    """Return what a text in JSON says. Raises ValueError, also if it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class ClientPause(NamedTuple):
    """A wait of this time, which ends early if the client is stopped."""

    seconds: float


Operation = Generator[Request | ClientPause, ServerAnswer | None, T]
"""A ServerAnswer is sent in for a Request, and None for a ClientPause. If there is no answer, or
one of another program, that ClientError is thrown in."""


class Stopped(Exception):
    """An operation was ended during a pause. Never leaves the client."""


def query(message_id: MessageId | None = None, **numbers: float | None) -> str:
    """Return the end of a target: `?wait=5`, or nothing if all parameters are None. Raises
    TypeError for what is not a number."""
    pairs = [] if message_id is None else [f"id={message_id}"]
    pairs += [
        f"{name}={_digits(name, value)}" for name, value in numbers.items() if value is not None
    ]
    return f"?{'&'.join(pairs)}" if pairs else ""


def _digits(name: str, value: float) -> str:
    """Write a value in digits only: the server takes no exponent. What is above 0 stays above it: a
    visibility of 0 would release the message."""
    if isinstance(value, float):
        return seconds_text(max(value, _SHORTEST_SECONDS) if value > 0 else value)
    if not isinstance(value, Decimal):
        check = arguments.count if name == "max" else arguments.seconds
        check(name, value)
    return str(value)


def with_others(target: str, name: str, queues: Sequence[QueueName]) -> str:
    """Return a target with a parameter that names all queues but the first."""
    if len(queues) == 1:
        return target
    return f"{target}{'&' if '?' in target else '?'}{name}={','.join(queues[1:])}"
