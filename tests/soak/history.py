"""What the clients of one run asked for and were answered, a line of JSON for each request.

Times are of this machine's monotonic clock, in ns: `asked` is just before a request is sent,
`ended` just after its answer has been read or its connection lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECOND_NS = 1_000_000_000

UNCLEAR = "unclear"
"""In place of the queue of a copy that does not say where it died: there was no room for that."""

_END, _END_SECONDS = 1 << 62, 100_000.0


class Given(NamedTuple):
    """A message as a request or an answer names it. `token` is None for a body that is not whole,
    `message_id` and `lease` are empty where they are not known."""

    message_id: str
    token: str | None = ""
    lease: str = ""


@dataclass(slots=True)
class Event:
    """One request, or one thing that went wrong.

    `kind` is publish, receive, remove, renew, release, move, redrive, purge; handover, the removal
    in one step with publishes of the same time; delete, a removal that is answered as done also
    when its lease was over; left, a receive at the end, when nobody else asks; clock, a step of it;
    or fault, which `queue` names. `status` is None if no answer came: it
    may have been carried out or not, also later. `seconds` is the delay of a publish, the
    visibility of a lease, how far the clock was set ahead, or for how long a fault is felt after
    its end. `given` are the messages that it is about, in the order of the request or of the
    answer.
    """

    kind: str
    asked: int
    ended: int
    status: int | None = None
    queue: str = ""
    seconds: float = 0.0
    given: list[Given] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        return self.status is not None and self.status < 300

    @property
    def is_uncertain(self) -> bool:
        """Whether it may have been carried out without a word of it."""
        return self.status is None or self.status >= 500

    def to_line(self) -> bytes:
        row = [self.kind, self.asked, self.ended, self.status, self.queue, self.seconds, self.given]
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def left_there(given: Iterable[Given], queue: str = "", at: int = _END) -> Event:
    """What was found at the end."""
    return Event("left", at, at, 200, queue, _END_SECONDS, list(given))


def read_history(path: Path) -> Iterator[Event]:
    with path.open("rb") as file:
        yield from read_lines(file)


def read_lines(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        kind, asked, ended, status, queue, seconds, given = json.loads(line)
        messages = [Given(*each) for each in given]
        yield Event(kind, asked, ended, status, queue, seconds, messages)
