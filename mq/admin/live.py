"""What the page shows, as it changes: server-sent events (WHATWG HTML, section 9.2).

One look each second serves all viewers; without a viewer nothing is looked at. The first event of a
viewer, `whole`, has every queue; each later one, `changes`, has the queues that changed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

import structlog

from mq.errors import StoreUnavailable

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0
"""The time between two looks while there are viewers."""

MAX_VIEWERS = 32
"""A third of the listener's connections; the others are for health checks and metrics."""

Row = tuple[int, int, int, float | None, int, int]
"""The numbers of ready, leased and delayed messages; when the oldest ready one was published, in
seconds since 1970; and how many the server has published and removed since it started."""


class Look(NamedTuple):
    """The queues at `time`, in seconds since 1970; `totals` are counters of the server. `trouble`
    is why it is not ready, None if it is. `paused` names the queues that are paused."""

    time: float
    queues: dict[str, Row]
    totals: dict[str, int]
    trouble: str | None
    paused: list[str]


class _Tick(NamedTuple):
    number: int
    event: bytes


class Live:
    """The looks and their viewers. `take` may raise OSError: then nothing changes for now."""

    def __init__(self, about: dict[str, object], take: Callable[[], Awaitable[Look]]) -> None:
        self._about = about
        self._take = take
        self._look: Look | None = None
        self._tick = _Tick(0, b"")
        self._came = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._viewers = 0
        self._is_stopped = False

    def stop(self) -> None:
        """Let all viewers go."""
        self._is_stopped = True
        self._wake()

    def require_room(self) -> None:
        """Raise StoreUnavailable if there are MAX_VIEWERS already."""
        if self._viewers >= MAX_VIEWERS:
            raise StoreUnavailable(f"{MAX_VIEWERS} viewers watch already; close a page")

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Serve one viewer until the viewer goes or the server stops. A viewer that is too slow for
        a change gets everything again."""
        self._begin()
        try:
            seen = -1
            while not self._is_stopped:
                if self._look is None or self._tick.number == seen:
                    await self._came.wait()
                    continue
                tick = self._tick
                yield tick.event if tick.number == seen + 1 and seen > 0 else self._whole()
                seen = tick.number
        finally:
            self._end()

    def _begin(self) -> None:
        self._viewers += 1
        if self._looking is None:
            self._look = None
            self._looking = asyncio.create_task(self._look_forever())

    def _end(self) -> None:
        self._viewers -= 1
        if not self._viewers and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_forever(self) -> None:
        while True:
            started = time.monotonic()
            try:
                look = await self._take()
            except OSError:
                pass  # The root is in trouble, and the log says so. The next look may succeed.
            except Exception:
                log.exception("looking for the page failed")
            else:
                self._tick = _Tick(self._tick.number + 1, _changes(self._look, look))
                self._look = look
                self._wake()
            await asyncio.sleep(max(0.0, started + _LOOK_SECONDS - time.monotonic()))

    def _wake(self) -> None:
        self._came.set()
        self._came.clear()

    def _whole(self) -> bytes:
        assert self._look is not None
        return event("whole", {**self._look._asdict(), "about": self._about})


def _changes(before: Look | None, now: Look) -> bytes:
    known = {} if before is None else before.queues
    queues = {name: row for name, row in now.queues.items() if known.get(name) != row}
    gone = [name for name in known if name not in now.queues]
    return event("changes", {**now._asdict(), "queues": queues, "gone": gone})


def event(kind: str, data: object) -> bytes:
    """Return an event as it goes over the wire. JSON has no line break in it."""
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
