"""What the clients of one run asked for and were answered, a line of JSON for each request.

Times are of this machine's monotonic clock, in ns: `asked` is just before a request is sent,
`ended` just after its answer has been read or its connection lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

SECOND_NS = 1_000_000_000


class Given(NamedTuple):
    """A message as an answer gave it out. `token` is None for a body that is not whole."""

    message_id: str
    token: str | None
    lease: str


@dataclass
class Event:
    """One request, or one step of the clock.

    `status` is None if no answer came: it may have been carried out or not, also later. `seconds`
    is the delay of a publish, the visibility of a lease, or how far the clock was set ahead.
    """

    kind: str
    asked: int
    ended: int
    status: int | None = None
    message_id: str = ""
    token: str = ""
    lease: str = ""
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
        return json.dumps(asdict(self)).encode() + b"\n"


def read_history(path: Path) -> Iterator[Event]:
    with path.open("rb") as file:
        yield from read_lines(file)


def read_lines(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        found = json.loads(line)
        found["given"] = [Given(*each) for each in found["given"]]
        yield Event(**found)
