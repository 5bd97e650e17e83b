"""One message at a time, in a queue that only the server works on."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.crash.cuts.bodies import body_of
from tests.soak.bodies import IDLE, SINGLES, given_of, property_of
from tests.soak.history import Event, Given
from tests.soak.worker import HttpWorker, SoakSite, one

_MESSAGES = f"/{SINGLES}/messages"
_AFTER_ANOTHER = f"/{IDLE}/messages?then={SINGLES}&"


class SinglesWorker(HttpWorker):
    def __init__(self, site: SoakSite, source: random.Random) -> None:
        super().__init__(site, source)
        self._held: list[Given] = []
        self._lease_seconds = 0.0
        self._unanswered: Event | None = None

    async def do_something(self) -> None:
        work: Callable[[], Awaitable[None]]
        if self._unanswered is not None:
            work = self._publish_again
        elif self._held:
            work = self.random.choice([self._remove] * 6 + [self._renew, self._release, self._drop])
        else:
            work = self.random.choices(
                [self._publish, self._publish_own, self._receive], weights=[12, 3, 16]
            )[0]
        await work()

    async def _publish(self) -> None:
        delay = self.random.choice([0.0] * 9 + [round(self.random.uniform(0.2, 3.0), 1)])
        token = self.token()
        event = Event("publish", 0, 0, None, SINGLES, delay, one("", token))
        query = f"?delay={delay}" if delay else ""
        answer = await self.ask(
            event, "POST", f"{_MESSAGES}{query}", body_of(token), **property_of(token)
        )
        if event.succeeded:
            event.given = one(answer.message_id, token)
        self.note(event)

    async def _publish_own(self) -> None:
        """Under an id of its own, and then once more: whatever happens, it is stored once."""
        own = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        again = Event("publish", 0, 0, None, SINGLES, given=one(own, self.token()))
        self._unanswered = again
        await self._publish_again()
        if self._unanswered is None and self.random.randrange(2):
            self._unanswered = again

    async def _publish_again(self) -> None:
        """Publish again until it is answered."""
        assert self._unanswered is not None
        event = replace(self._unanswered)
        [(own, token, _)] = event.given
        assert token is not None
        await self.ask(
            event, "POST", _MESSAGES, body_of(token), X_Message_Id=own, **property_of(token)
        )
        self.note(event)
        if not event.is_uncertain:
            self._unanswered = None

    async def _receive(self) -> None:
        self._lease_seconds = self.random.choice([0.5, 1.0, 2.0, 4.0])
        event = Event("receive", 0, 0, None, SINGLES, self._lease_seconds)
        wait = self.random.choice(["", "", "&wait=0.3"])
        target = f"{self.random.choice([_MESSAGES + '?', _AFTER_ANOTHER])}visibility="
        answer = await self.ask(event, "GET", f"{target}{self._lease_seconds}{wait}")
        if answer.status == 200:
            event.given = [given_of(answer)]
            self._held = list(event.given)
        self.note(event)

    async def _guarded(self, kind: str, method: str, query: str = "", seconds: float = 0.0) -> bool:
        message_id, _, lease = self._held[-1]
        event = Event(kind, 0, 0, None, SINGLES, seconds, one(message_id, "", lease))
        target = f"?id={message_id}{query}" if query else f"/{message_id}"
        await self.ask(event, method, _MESSAGES + target, If_Match=lease)
        self.note(event)
        return event.succeeded

    async def _remove(self) -> None:
        if self.random.randrange(5) == 0:
            # Work takes its time, sometimes longer than the lease.
            await asyncio.sleep(self.random.uniform(0, 1.5))
        await self._guarded("remove", "DELETE")
        self._held.pop()

    async def _renew(self) -> None:
        seconds = self._lease_seconds
        if not await self._guarded("renew", "GET", f"&visibility={seconds}", seconds):
            self._held.pop()

    async def _release(self) -> None:
        await self._guarded("release", "GET", "&visibility=0")
        self._held.pop()

    async def _drop(self) -> None:
        """Forget a message like a worker that died: its lease ends by itself."""
        self._held.pop()
