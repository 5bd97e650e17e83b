"""Batches whose lines are for several queues, copies for readers, their dead letters, and a queue
with a ttl."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import replace

from tests.crash.load import LoadAnswer
from tests.soak.bodies import (
    BRIEF,
    COPIED,
    COUNTER,
    ENDED,
    READERS,
    copy_in,
    given_from,
    id_of,
    line_of,
)
from tests.soak.bulk import NDJSON, BatchWorker, statuses_of
from tests.soak.history import Event, Given
from tests.soak.worker import SoakSite, grouped

_STORED, _KNOWN, _SOME = 201, 200, 207
_MOST_LINES = 40
_GRAVES = [each for each in COPIED if each not in (COUNTER, *READERS)]
_PLACES = [COUNTER, COUNTER, *READERS, *READERS, *_GRAVES]


class _SeveralQueues:
    """The lines of a batch for COUNTER, and what the history says of it: an event for each queue
    that gets some. `also` is what its parameter of that name says."""

    def __init__(self, source: random.Random, tokens: list[str]) -> None:
        self.has_own_ids = source.randrange(3) == 0
        self.also = source.choice(["", "", "", source.choice(READERS)])
        self.lines: list[str] = []
        self.events: dict[str, Event] = {}
        self._places: list[tuple[str, int, int]] = []
        for at, token in enumerate(tokens):
            named = source.choice([COUNTER, COUNTER, COUNTER, *READERS])
            members = {} if named == COUNTER and source.randrange(2) else {"queue": named}
            own = str(uuid.UUID(int=source.getrandbits(128), version=4)) if self.has_own_ids else ""
            self.lines.append(line_of(token, **members, **({"id": own} if own else {})))
            copies = READERS if named == COUNTER else ()
            for queue in dict.fromkeys([named, *filter(None, [self.also]), *copies]):
                event = self.events.setdefault(queue, Event("publish", 0, 0, None, queue))
                self._places.append((queue, len(event.given), at))
                event.given.append(copy_in(queue, Given(own, token)))

    def note_ids(self, answer: LoadAnswer) -> None:
        ids = [json.loads(line)["id"] for line in answer.body.splitlines()]
        for queue, place, at in self._places:
            given = self.events[queue].given
            given[place] = given[place]._replace(message_id=f"{queue}/{ids[at]}")


class CopiesWorker(BatchWorker):
    def __init__(self, site: SoakSite, source: random.Random) -> None:
        super().__init__(site, source)
        self._unanswered: _SeveralQueues | None = None

    async def do_something(self) -> None:
        draw = self.random.randrange(16)
        if self._unanswered is not None:
            await self._publish(self._unanswered)
        elif draw < 2:
            count = self.random.choice([1, 1, 3, 3, self.random.randint(2, _MOST_LINES)])
            await self._publish(_SeveralQueues(self.random, [self.token() for _ in range(count)]))
        elif draw < 3:
            await self._redrive()
        elif draw < 4:
            await self.publish_batch(BRIEF, self.random.randint(1, 10))
        elif draw < 6:
            for given in await self.receive(BRIEF, self.random.randint(1, 10), 0.5):
                await self._deal_with(BRIEF, given)
        else:
            queues = self.random.sample(_PLACES, self.random.randint(1, 3))
            await self._receive_first([*dict.fromkeys(queues)])

    async def _publish(self, batch: _SeveralQueues) -> None:
        """Publish a batch; one with ids of its own again until that is answered."""
        is_again = batch is self._unanswered
        self._unanswered = batch if batch.has_own_ids else None
        body = "\n".join(batch.lines).encode() + b"\n"
        also = f"&also={batch.also}" if batch.also else ""
        events = [replace(each) for each in batch.events.values()]
        target = f"/{COUNTER}/messages?batch{also}"
        answer = await self.ask_all(events, "POST", target, body, Content_Type=NDJSON)
        if events[0].succeeded:
            batch.note_ids(answer)
            for event in events:
                event.given = batch.events[event.queue].given
                # Some of it may have been stored the first time.
                event.status = _KNOWN if is_again else _STORED
        self.note(*events)
        if not events[0].is_uncertain:
            self._unanswered = None

    async def _receive_first(self, queues: list[str]) -> None:
        """Receive from the first of these queues that has a message."""
        seconds = self.random.choice([0.5, 0.5, 2.0])
        events = [Event("receive", 0, 0, None, each, seconds) for each in queues]
        then = "".join(f"&then={each}" for each in queues[1:])
        target = f"/{queues[0]}/messages?max={self.random.randint(1, 20)}&visibility={seconds}"
        answer = await self.ask_all(events, "GET", target + then)
        if answer.status == 200:
            lines = [json.loads(line) for line in answer.body.splitlines()]
            source = lines[0].get("queue", queues[0])
            del events[queues.index(source) + 1 :]  # Nobody has looked there.
            events[-1].given = [given_from(source, line) for line in lines]
        self.note(*events)
        for given in events[-1].given:
            await self._deal_with(events[-1].queue, given)

    async def _deal_with(self, queue: str, given: Given) -> None:
        draw = self.random.randrange(8)
        if draw < 5:
            await self.remove(queue, [given])
        elif draw < 7:
            event = Event("release", 0, 0, None, queue, given=[given])
            target = f"/{queue}/messages?id={id_of(given)}&visibility=0"
            await self.ask(event, "GET", target, If_Match=given.lease)
            self.note(event)

    async def _redrive(self) -> None:
        """Bring the dead letters that readers share back to where they died. Moved by their ids,
        they lose their leases too."""
        answer = await self.ask(Event("look", 0, 0), "GET", f"/{ENDED}/messages?peek&max=20")
        lines = [json.loads(line) for line in answer.body.splitlines() if answer.status == 200]
        for home in READERS:
            dead = [given_from(ENDED, line) for line in lines if line.get("dead_from") == home]
            if dead:
                redrive, move = Event("redrive", 0, 0, None, home), Event("move", 0, 0, None, home)
                move.given = dead
                target = f"/{home}/messages?from={ENDED}&id={','.join(map(id_of, dead))}"
                moved = await self.ask_all([redrive, move], "POST", target)
                redrive.status = _KNOWN if redrive.status == _SOME else redrive.status
                statuses = statuses_of(moved, len(dead))
                self.note(redrive, *grouped(move, zip(dead, statuses, strict=True)))
