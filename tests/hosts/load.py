"""Producers and consumers on servers of several hosts, and what they were told.

Judged are: lost (answered 201, never removed, not there at the end), back after 202, given twice
within its timeout, and the order: of what a consumer is given, at most N older messages are
waiting.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.crash.load import LoadAnswer, LoadClient, ServerGone
from tests.soak.history import SECOND_NS, Event, Given

QUEUE = "orders"
_ANSWER_SECONDS = 120.0
_PAUSE_SECONDS = 0.05
_NEVER = 1 << 63


Work = Callable[[LoadClient, Iterator[int]], Awaitable[None]]


@dataclass
class HostLoad:
    """`addresses` are those of the servers, each as (host, port). Of what is received a part is
    held for longer, and a part `forgotten`: it comes again when its lease is over. A message is
    `unsure` if its removal was not answered, or with an error: it may be removed or not."""

    addresses: Sequence[tuple[str, int]]
    messages: int
    visibility_seconds: float = 30.0
    forgotten: float = 0.0
    prolonged: float = 0.0
    history: list[Event] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    published: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)

    async def run(self, producers: int = 16, consumers: int = 16, seconds: float = 600.0) -> None:
        """Publish all messages, and receive and remove until each is removed."""
        left = iter(range(self.messages))
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for number in range(producers):
                group.create_task(self._with_client(number, self._produce, left))
            for number in range(consumers):
                group.create_task(self._with_client(number, self._consume, left))

    async def _with_client(self, number: int, work: Work, left: Iterator[int]) -> None:
        at = number % len(self.addresses)
        while True:
            try:
                async with asyncio.timeout(5):
                    reader, writer = await asyncio.open_connection(*self.addresses[at])
            except (OSError, TimeoutError):
                at = (at + 1) % len(self.addresses)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            client = LoadClient(reader, writer)
            try:
                await work(client, left)
                return
            except ServerGone:
                at = (at + 1) % len(self.addresses)
            finally:
                client.close()

    async def _ask(
        self, client: LoadClient, event: Event, method: str, target: str, body: bytes = b"",
        **headers: str,
    ) -> LoadAnswer:  # fmt: skip
        event.asked = time.monotonic_ns()
        self.history.append(event)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await client.request(method, target, body, **headers)
        except (ServerGone, TimeoutError) as error:
            event.ended = time.monotonic_ns()
            self.statuses[f"{event.kind} -"] += 1
            raise ServerGone from error
        event.ended, event.status = time.monotonic_ns(), answer.status
        self.statuses[f"{event.kind} {answer.status}"] += 1
        return answer

    async def _produce(self, client: LoadClient, left: Iterator[int]) -> None:
        for _ in left:
            token = uuid.uuid4().hex
            try:
                while not await self._publish(client, token):
                    await asyncio.sleep(_PAUSE_SECONDS)
            except ServerGone:
                self.messages -= 1  # It may be published or not; nobody will say.
                raise

    async def _publish(self, client: LoadClient, token: str) -> bool:
        event = Event("publish", 0, 0, given=[Given("", token)])
        target = f"/{QUEUE}/messages"
        answer = await self._ask(client, event, "POST", target, token.encode())
        if answer.status == 201:
            event.given = [Given(answer.message_id, token)]
            self.published[answer.message_id] = token
        return answer.status == 201

    async def _consume(self, client: LoadClient, _: Iterator[int]) -> None:
        while len(self.published) < self.messages or (
            self.published.keys() - self.removed - self.unsure
        ):
            event = Event("receive", 0, 0, seconds=self.visibility_seconds)
            target = f"/{QUEUE}/messages?visibility={self.visibility_seconds}&wait=1"
            answer = await self._ask(client, event, "GET", target)
            if answer.status != 200:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            given = Given(answer.message_id, answer.body.decode(), answer.headers["etag"])
            event.given = [given]
            if random.random() < self.prolonged:
                await self._prolong(client, given)
            if random.random() >= self.forgotten:
                await asyncio.sleep(random.uniform(0, 0.002))
                await self._remove(client, given)

    async def _prolong(self, client: LoadClient, given: Given) -> None:
        """Hold it for longer than its lease was to last, under the same one."""
        await asyncio.sleep(self.visibility_seconds / 2)
        event = Event("renew", 0, 0, seconds=self.visibility_seconds, given=[given])
        target = f"/{QUEUE}/messages?id={given.message_id}&visibility={self.visibility_seconds}"
        await self._ask(client, event, "GET", target, If_Match=given.lease)
        await asyncio.sleep(self.visibility_seconds * 0.7)

    async def _remove(self, client: LoadClient, given: Given) -> None:
        event = Event("remove", 0, 0, given=[Given(given.message_id, "", given.lease)])
        target = f"/{QUEUE}/messages/{given.message_id}"
        self.unsure.add(given.message_id)  # until there is an answer
        answer = await self._ask(client, event, "DELETE", target, If_Match=given.lease)
        if answer.status == 202:
            self.removed.add(given.message_id)
        if answer.status < 500:
            self.unsure.discard(given.message_id)


SEEN_NS = 3 * SECOND_NS
"""A server knows of a message that was published on another host after this time."""


def passed_over(history: Sequence[Event]) -> int:
    """The most messages that any receive passed over: they were published before the one that it
    gave out, their servers had known of them, and nobody was given them until it had ended."""
    published = {
        given.message_id: each
        for each in history
        if each.kind == "publish" and each.succeeded
        for given in each.given
    }
    first: dict[str, Event] = {}
    for event in sorted(history, key=lambda each: each.asked):
        for given in event.given if event.kind == "receive" else ():
            first.setdefault(given.message_id, event)
    waiting: list[int] = []
    untaken = sorted(published, key=lambda each: first[each].asked if each in first else _NEVER)
    worst = 0
    for message_id, event in sorted(first.items(), key=lambda each: -each[1].ended):
        while untaken and (untaken[-1] not in first or first[untaken[-1]].asked > event.ended):
            insort(waiting, published[untaken.pop()].ended)
        if message_id in published:
            known = min(published[message_id].asked, event.asked - SEEN_NS)
            worst = max(worst, bisect_left(waiting, known))
    return worst
