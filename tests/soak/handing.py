"""Messages that are handed over from queue to queue by way of two servers, to workers that wait for
them; and a queue that is deleted, made again, and paused now and then."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import replace

from tests.crash.load import LoadAnswer, ServerGone
from tests.soak.bodies import (
    STALL,
    STOVE,
    TABLES,
    TRAYS,
    copy_in,
    given_from,
    given_of,
    id_of,
    line_of,
    property_of,
    text_of,
)
from tests.soak.bulk import NDJSON
from tests.soak.history import Event, Given
from tests.soak.worker import HttpWorker, SoakSite

_KNOWN = 200
_GONE_OF = 100
_NEXT: dict[str, list[tuple[str, ...]]] = {
    STOVE: [(TRAYS,), (TRAYS,), (TRAYS, TABLES), (STOVE,)],
    TRAYS: [(TABLES,), (TABLES,), (STOVE,)],
    TABLES: [(TRAYS,)],
}
_SETTINGS = ("", "delay=0.3", "paused=true", "paused=", "visibility=0.7&delay=", "max-messages=50")


class _Handover:
    """A request that hands `taken` over. `events` are what the history says of it: a publish for
    each queue, and then the removal."""

    def __init__(self, source: random.Random, queue: str, taken: Given, tokens: list[str]) -> None:
        targets = source.choice(_NEXT[queue])
        self.own = str(uuid.UUID(int=source.getrandbits(128), version=4))
        self.has_own_id = source.randrange(3) == 0
        self.tokens, self.lease, self.is_batch = tokens, taken.lease, len(tokens) > 1
        also = "".join(f"&also={each}" for each in targets[1:])
        self.delay = source.choice([0.0, 0.0, 0.0, 1.0])
        kind = "batch" if self.is_batch else f"delay={self.delay}"
        removes = f"removes={queue}/{id_of(taken)}"
        self.target = f"/{targets[0]}/messages?{kind}&{removes}{also}"
        delay = 0.0 if self.is_batch else self.delay
        self.events = [Event("publish", 0, 0, None, each, delay) for each in targets]
        for event in self.events:
            event.given = [copy_in(event.queue, Given(self.id_at(at), token))
                           for at, token in enumerate(tokens)]  # fmt: skip
        self.events.append(Event("handover", 0, 0, None, queue, given=[taken]))

    def id_at(self, at: int) -> str:
        return f"{self.own}-{at}" if self.has_own_id else ""

    def note_ids(self, answer: LoadAnswer) -> None:
        if self.is_batch:
            ids = [json.loads(line)["id"] for line in answer.body.splitlines()]
        else:
            ids = [answer.message_id]
        for event in self.events[:-1]:
            event.given = [copy_in(event.queue, Given(message_id, token))
                           for message_id, token in zip(ids, self.tokens, strict=True)]  # fmt: skip


class ServersWorker(HttpWorker):
    """One that goes to either of two servers, each time that it connects."""

    @property
    def port(self) -> int:
        return self.random.choice([self.site.port, self.site.other_port])

    def maybe_go(self) -> None:
        if self.random.randrange(_GONE_OF) == 0:
            raise ServerGone

    async def receive_one(self, queue: str, seconds: float) -> list[Given]:
        wait = self.random.choice(["", "&wait=0.2", "&wait=1", "&wait=3"])
        event = Event("receive", 0, 0, None, queue, seconds)
        most = self.random.choice(["", "", "", "&max=3"])
        target = f"/{queue}/messages?visibility={seconds}{wait}{most}"
        answer = await self.ask(event, "GET", target)
        if answer.status == 200 and most:
            lines = map(json.loads, answer.body.splitlines())
            event.given = [given_from(queue, line) for line in lines]
        elif answer.status == 200:
            event.given = [copy_in(queue, given_of(answer))]
        self.note(event)
        return event.given

    async def guarded(self, kind: str, queue: str, given: Given, seconds: float = 0.0) -> None:
        event = Event(kind, 0, 0, None, queue, seconds, [given])
        target = f"/{queue}/messages"
        if kind == "remove":
            await self.ask(event, "DELETE", f"{target}/{id_of(given)}", If_Match=given.lease)
        else:
            target = f"{target}?id={id_of(given)}&visibility={seconds}"
            await self.ask(event, "GET", target, If_Match=given.lease)
        self.note(event)

    async def publish(self, queue: str) -> int:
        token = self.token()
        event = Event("publish", 0, 0, None, queue, given=[copy_in(queue, Given("", token))])
        answer = await self.ask(
            event, "POST", f"/{queue}/messages", text_of(token).encode(), **property_of(token)
        )
        if event.succeeded:
            event.given = [copy_in(queue, Given(answer.message_id, token))]
        self.note(event)
        return answer.status


class HandingWorker(ServersWorker):
    def __init__(self, site: SoakSite, source: random.Random) -> None:
        super().__init__(site, source)
        self._unanswered: _Handover | None = None

    async def do_something(self) -> None:
        self.maybe_go()
        if self._unanswered is not None:
            await self._hand_over(self._unanswered)
        elif self.random.randrange(5) == 0:
            await self.publish(STOVE)
        else:
            queue, seconds = self.random.choice([*_NEXT]), self.random.choice([0.5, 1.0, 2.0])
            for given in await self.receive_one(queue, seconds):
                await self._deal_with(queue, given, seconds)

    async def _deal_with(self, queue: str, given: Given, seconds: float) -> None:
        draw = self.random.randrange(20)
        if draw < (3 if queue == TABLES else 13):
            count = self.random.choice([1, 1, 1, 2])
            tokens = [self.token() for _ in range(count)]
            await self._hand_over(_Handover(self.random, queue, given, tokens))
        elif draw < 17:
            await self.guarded("remove", queue, given)
        elif draw < 18:
            await self.guarded("renew", queue, given, seconds)
        elif draw < 19:
            await self.guarded("release", queue, given)

    async def _hand_over(self, handover: _Handover) -> None:
        is_again = handover is self._unanswered
        self._unanswered = handover if handover.has_own_id else None
        events = [replace(each) for each in handover.events]
        headers = {"If_Match": handover.lease}
        if handover.is_batch:
            lines = [line_of(token, **({"id": handover.id_at(at)} if handover.has_own_id else {}))
                     for at, token in enumerate(handover.tokens)]  # fmt: skip
            body, headers["Content_Type"] = "\n".join(lines) + "\n", NDJSON
        else:
            [token] = handover.tokens
            body = text_of(token)
            headers |= property_of(token)
            if handover.has_own_id:
                headers["X_Message_Id"] = handover.id_at(0)
        answer = await self.ask_all(events, "POST", handover.target, body.encode(), **headers)
        if events[0].succeeded:
            handover.note_ids(answer)
            for event, told in zip(events, handover.events, strict=True):
                event.given = told.given
                event.status = _KNOWN if is_again else event.status
        self.note(*events)
        if not events[0].is_uncertain:
            self._unanswered = None


class StallWorker(ServersWorker):
    """Publishes to a queue that comes and goes. Its deletion is a purge to the history."""

    async def do_something(self) -> None:
        self.maybe_go()
        draw = self.random.randrange(40)
        if draw == 0:
            event = Event("purge", 0, 0, None, STALL)
            await self.ask(event, "DELETE", f"/{STALL}" + self.random.choice(["", "", "?purge"]))
            self.note(event)
        elif draw < 4:
            await self._make()
        elif draw < 16:
            if await self.publish(STALL) == 404:
                await self._make()
        else:
            for given in await self.receive_one(STALL, 1.0):
                if self.random.randrange(5):
                    await self.guarded("remove", STALL, given)

    async def _make(self) -> None:
        target = f"/{STALL}?{self.random.choice(_SETTINGS)}"
        await self.ask(Event("make", 0, 0), "PUT", target)
