"""What all clients of a run have in common."""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from tests.crash.load import LoadAnswer, LoadClient, ServerGone, client_at
from tests.soak.history import Event, Given

_RECONNECT_SECONDS = 0.05
_REFUSED_SECONDS = 0.02
_UNAVAILABLE = 503


class SoakSite(NamedTuple):
    """Where clients go, and where they write down what they saw. `root` is that of the servers."""

    port: int
    gateway_port: int
    other_port: int
    root: str
    history_fd: int

    def note(self, *events: Event) -> None:
        """One write(2), so that the history is whole at any moment."""
        os.write(self.history_fd, b"".join(event.to_line() for event in events))


class SoakWorker(ABC):
    """A client: does one thing after the other, each chosen at random."""

    def __init__(self, site: SoakSite, source: random.Random) -> None:
        self.site = site
        self.random = source

    @abstractmethod
    async def run(self, stopping: asyncio.Event) -> None: ...

    def token(self) -> str:
        return uuid.UUID(int=self.random.getrandbits(128), version=4).hex

    def note(self, *events: Event) -> None:
        self.site.note(*events)


class HttpWorker(SoakWorker):
    """One on a connection to the server, or to the gateway."""

    client: LoadClient

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                async with client_at(self.port) as self.client:
                    while not stopping.is_set():
                        await self.do_something()
            except ServerGone:
                await asyncio.sleep(_RECONNECT_SECONDS)

    @property
    def port(self) -> int:
        return self.site.port

    @abstractmethod
    async def do_something(self) -> None: ...

    async def ask_all(
        self, events: list[Event], method: str, target: str, body: bytes = b"", **headers: str
    ) -> LoadAnswer:
        """Send a request of which the history has several events."""
        first, *others = events
        try:
            return await self.ask(first, method, target, body, **headers)
        finally:
            for each in others:
                each.asked, each.ended, each.status = first.asked, first.ended, first.status
            if first.status is None:  # The first one is noted.
                self.note(*others)

    async def ask(self, event: Event, method: str, target: str, body: bytes = b"", **headers: str
                  ) -> LoadAnswer:  # fmt: skip
        """Send a request. If no answer comes, that is noted, and ServerGone raised; else the caller
        notes the event."""
        event.asked = time.monotonic_ns()
        try:
            answer = await self.client.request(method, target, body, **headers)
        except ServerGone:
            event.ended = time.monotonic_ns()
            self.note(event)
            raise
        event.ended, event.status = time.monotonic_ns(), answer.status
        if answer.status == _UNAVAILABLE:
            await asyncio.sleep(_REFUSED_SECONDS)
        return answer


def one(message_id: str, token: str | None = "", lease: str = "") -> list[Given]:
    return [Given(message_id, token, lease)]


def grouped(event: Event, statuses: Iterable[tuple[Given, int]]) -> list[Event]:
    """An event for each status that a request about several messages was answered with."""
    groups: dict[int, list[Given]] = {}
    for given, status in statuses:
        groups.setdefault(status, []).append(given)
    return [
        Event(event.kind, event.asked, event.ended, status, event.queue, event.seconds, group)
        for status, group in groups.items()
    ]
