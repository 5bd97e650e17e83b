"""All that happened to one message. Of these there are a million in a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.soak.history import SECOND_NS, Event

_NEVER = 1 << 63
_STORED = 201


class Lease(NamedTuple):
    """A lease that an answer told of: given at some time between the `asked` and `ended` of its
    event, and at the least until `asked` and its visibility after that."""

    lease: str
    event: Event

    def __hash__(self) -> int:
        return hash((self.lease, id(self.event)))

    @property
    def asked(self) -> int:
        return self.event.asked

    @property
    def ended(self) -> int:
        return self.event.ended

    @property
    def seconds(self) -> float:
        return self.event.seconds

    @property
    def ends(self) -> int:
        return self.asked + int(self.seconds * SECOND_NS)


class Story:
    """Each event with what it named: a token, or a lease."""

    __slots__ = ("given", "guarded", "leases", "left", "publishes", "releases", "removals")

    def __init__(self) -> None:
        self.publishes: tuple[tuple[Event, str], ...] = ()
        self.given: tuple[tuple[Event, str | None], ...] = ()
        self.left: tuple[tuple[Event, str | None], ...] = ()
        self.leases: tuple[Lease, ...] = ()
        self.guarded: tuple[tuple[Event, str], ...] = ()
        self.removals: tuple[tuple[Event, str], ...] = ()
        self.releases: tuple[Event, ...] = ()

    @property
    def published(self) -> Event | None:
        """The first publish that was answered."""
        return next((each for each, _ in self.publishes if each.succeeded), None)

    def stored(self) -> Iterator[int]:
        """When it was sent, each time that it was stored: what is known already is answered with
        200."""
        return (event.asked for event, _ in self.publishes if event.status == _STORED)

    def first_taken(self) -> int:
        """The time before which no receiver can have taken it from its queue."""
        takers = [event.asked for event, _ in self.given]
        takers += [event.asked for event, _ in self.guarded]
        return min(takers, default=_NEVER)

    def first_given(self) -> Event | None:
        return min(
            (event for event, _ in self.given), key=lambda each: each.asked, default=None
        )  # fmt: skip

    def seen(self) -> list[tuple[Event, str | None]]:
        """Each answer that it was in, those of the end too, in order."""
        return sorted((*self.given, *self.left), key=lambda each: each[0].asked)
