"""Hundreds of messages at a time: batches, receives of several, removals of several, purges."""

from __future__ import annotations

import json
import random

from tests.crash.load import LoadAnswer
from tests.soak.bodies import BULK, DRAFTS, given_in, id_of, line_of
from tests.soak.history import Event, Given
from tests.soak.worker import HttpWorker, SoakSite, grouped

NDJSON = "application/x-ndjson"
_MAX_REMOVED = 100
_MAX_DEPTH = 10_000
_LOOK_OF = 50
_LEASE_SECONDS = 5.0


class Depth:
    """About how many messages there are in the queue of bulk."""

    def __init__(self) -> None:
        self.messages = 0


class BatchWorker(HttpWorker):
    """What publishes batches and receives several at once has in common."""

    async def publish_batch(self, queue: str, count: int) -> bool:
        tokens = [self.token() for _ in range(count)]
        event = Event("publish", 0, 0, None, queue, given=[Given("", token) for token in tokens])
        body = "\n".join(line_of(token) for token in tokens).encode() + b"\n"
        answer = await self.ask(
            event, "POST", f"/{queue}/messages?batch", body, Content_Type=NDJSON
        )
        if event.succeeded:
            lines = answer.body.splitlines()
            event.given = [
                Given(json.loads(line)["id"], token)
                for line, token in zip(lines, tokens, strict=True)
            ]
        self.note(event)
        return event.succeeded

    async def receive(self, queue: str, count: int, seconds: float) -> list[Given]:
        event = Event("receive", 0, 0, None, queue, seconds)
        target = f"/{queue}/messages?max={count}&visibility={seconds}"
        answer = await self.ask(event, "GET", target)
        if answer.status == 200:
            event.given = [given_in(json.loads(line)) for line in answer.body.splitlines()]
        self.note(event)
        return event.given

    async def remove(self, queue: str, held: list[Given]) -> int:
        """How many of `held`, at most a hundred or so, are removed now."""
        event = Event("remove", 0, 0, None, queue, given=held)
        ids = ",".join(map(id_of, held))
        leases = ", ".join(given.lease for given in held)
        answer = await self.ask(event, "DELETE", f"/{queue}/messages/{ids}", If_Match=leases)
        statuses = statuses_of(answer, len(held))
        self.note(*grouped(event, zip(held, statuses, strict=True)))
        return sum(1 for status in statuses if status < 300)


class BulkWorker(BatchWorker):
    """Publishes, or receives and removes what it received; keeps the queue from growing."""

    def __init__(self, site: SoakSite, source: random.Random, depth: Depth) -> None:
        super().__init__(site, source)
        self._depth = depth

    async def do_something(self) -> None:
        if self.random.randrange(_LOOK_OF) == 0:
            answer = await self.ask(Event("look", 0, 0), "GET", f"/{BULK}")
            if answer.status == 200:
                info = json.loads(answer.body)
                self._depth.messages = info["ready"] + info["leased"]
        if self.random.random() * _MAX_DEPTH > self._depth.messages:
            count = self.random.choice([self.random.randint(2, 1000), 1000])
            if await self.publish_batch(BULK, count):
                self._depth.messages += count
            return
        count = self.random.choice([self.random.randint(2, 1000), 1000])
        held = await self.receive(BULK, count, _LEASE_SECONDS)
        if self.random.randrange(40) == 0:
            return  # As a client that dies: the leases end by themselves.
        for first in range(0, len(held), _MAX_REMOVED):
            part = held[first : first + _MAX_REMOVED]
            self._depth.messages -= await self.remove(BULK, part)


class DraftsWorker(BatchWorker):
    """Publishes, looks at some, and purges: a long queue and a short one."""

    async def do_something(self) -> None:
        for _ in range(self.random.choice([0, 0, 1, 3])):
            await self.publish_batch(DRAFTS, self.random.randint(1, 1000))
        held = await self.receive(DRAFTS, self.random.randint(1, 50), 1.0)
        if held and self.random.randrange(2):
            await self.remove(DRAFTS, held)
        if self.random.randrange(3) == 0:
            event = Event("purge", 0, 0, None, DRAFTS)
            await self.ask(event, "DELETE", f"/{DRAFTS}?purge")
            self.note(event)


def statuses_of(answer: LoadAnswer, count: int) -> list[int]:
    """Return what became of each message that a request was about."""
    if answer.status != 207:
        return [answer.status] * count
    return [int(json.loads(line)["status"]) for line in answer.body.splitlines()]
