"""The clients of a run: a process of its own, whose history lies outside of the file system on
which things go wrong.

    python -m tests.soak.clients HISTORY PORT SEED WORKERS

Runs until SIGTERM. A client that loses its connection opens another one, however long it takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.crash.cuts.bodies import body_of, token_of
from tests.crash.load import LoadAnswer, LoadClient, ServerGone, client_at
from tests.soak.history import Event, Given

QUEUE = "orders"
_RECONNECT_SECONDS = 0.05
_REFUSED_SECONDS = 0.02
_NDJSON = "application/x-ndjson"


class SoakWorker:
    """One client: does one thing after the other, each chosen at random."""

    def __init__(self, port: int, history_fd: int, source: random.Random) -> None:
        self._port = port
        self._history_fd = history_fd
        self._random = source
        self._client: LoadClient | None = None
        self._held: list[Given] = []
        self._lease_seconds = 0.0
        self._unanswered: Event | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                async with client_at(self._port) as client:
                    self._client = client
                    while not stopping.is_set():
                        await self._do_something()
            except ServerGone:
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _do_something(self) -> None:
        work: Callable[[], Awaitable[None]]
        if self._unanswered is not None:
            work = self._publish_again
        elif self._held:
            work = self._random.choice(
                [self._remove] * 6 + [self._renew, self._release, self._drop]
            )
        else:
            work = self._random.choices(
                [self._publish, self._publish_own, self._publish_batch, self._receive],
                weights=[12, 3, 1, 18],
            )[0]
        await work()

    async def _ask(self, event: Event, method: str, target: str, body: bytes = b"", **headers: str
                   ) -> LoadAnswer | None:  # fmt: skip
        """Send a request and note what came of it; None if no answer came."""
        assert self._client is not None
        event.asked = time.monotonic_ns()
        try:
            answer = await self._client.request(method, target, body, **headers)
        except ServerGone:
            event.ended = time.monotonic_ns()
            self._note(event)
            raise
        event.ended, event.status = time.monotonic_ns(), answer.status
        if answer.status == 503:
            await asyncio.sleep(_REFUSED_SECONDS)
        return answer

    def _note(self, *events: Event) -> None:
        """One write(2), so that the history is whole at any moment."""
        os.write(self._history_fd, b"".join(event.to_line() for event in events))

    def _token(self) -> str:
        return uuid.UUID(int=self._random.getrandbits(128), version=4).hex

    async def _publish(self) -> None:
        delay = self._random.choice([0.0] * 9 + [round(self._random.uniform(0.2, 3.0), 1)])
        event = Event("publish", 0, 0, token=self._token(), seconds=delay)
        query = f"?delay={delay}" if delay else ""
        answer = await self._ask(event, "POST", f"/{QUEUE}/messages{query}", body_of(event.token))
        if answer is not None and event.succeeded:
            event.message_id = answer.message_id
        self._note(event)

    async def _publish_own(self) -> None:
        """Under an id of its own, and then once more: whatever happens, it is stored once."""
        own = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        again = self._unanswered = Event("publish", 0, 0, message_id=own, token=self._token())
        await self._publish_again()
        if self._unanswered is None and self._random.randrange(2):
            self._unanswered = again

    async def _publish_again(self) -> None:
        """Publish again until it is answered."""
        assert self._unanswered is not None
        event = replace(self._unanswered, given=[])
        body = body_of(event.token)
        await self._ask(event, "POST", f"/{QUEUE}/messages", body, X_Message_Id=event.message_id)
        self._note(event)
        if not event.is_uncertain:
            self._unanswered = None

    async def _publish_batch(self) -> None:
        tokens = [self._token() for _ in range(self._random.randint(2, 40))]
        events = [Event("publish", 0, 0, token=token) for token in tokens]
        # The body is text: a line's body cannot hold every byte.
        lines = [json.dumps({"body": token + "." * (len(token) % 7)}) for token in tokens]
        body = "\n".join(lines).encode() + b"\n"
        try:
            answer = await self._ask(
                events[0], "POST", f"/{QUEUE}/messages?batch", body, Content_Type=_NDJSON
            )  # fmt: skip
        except ServerGone:
            answer = None
        for event in events:
            event.asked, event.ended = events[0].asked, events[0].ended
            event.status = events[0].status
        if answer is not None and events[0].succeeded:
            for event, line in zip(events, answer.body.splitlines(), strict=True):
                event.message_id = json.loads(line)["id"]
        self._note(*events)
        if answer is None:
            raise ServerGone

    async def _receive(self) -> None:
        self._lease_seconds = self._random.choice([0.5, 1.0, 2.0, 4.0])
        event = Event("receive", 0, 0, seconds=self._lease_seconds)
        wait = self._random.choice(["", "", "&wait=0.3"])
        answer = await self._ask(
            event, "GET", f"/{QUEUE}/messages?visibility={self._lease_seconds}{wait}"
        )
        if answer is not None and answer.status == 200:
            event.given = [given_of(answer)]
            self._held = list(event.given)
        self._note(event)

    async def _guarded(self, kind: str, method: str, query: str = "", seconds: float = 0.0) -> bool:
        given = self._held[-1]
        event = Event(kind, 0, 0, message_id=given.message_id, lease=given.lease, seconds=seconds)
        target = f"/{QUEUE}/messages" + (f"?id={given.message_id}{query}" if query else
                                         f"/{given.message_id}")  # fmt: skip
        await self._ask(event, method, target, If_Match=given.lease)
        self._note(event)
        return event.succeeded

    async def _remove(self) -> None:
        if self._random.randrange(5) == 0:
            # Work takes its time, sometimes longer than the lease.
            await asyncio.sleep(self._random.uniform(0, 1.5))
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


def given_of(answer: LoadAnswer) -> Given:
    return Given(answer.message_id, token_in(answer.body), answer.headers["etag"])


def token_in(body: bytes) -> str | None:
    """The token of a body as `_publish` or `_publish_batch` made it; None for a torn one."""
    text = body[:32].decode("ascii", "replace")
    if body == (text + "." * (len(text) % 7)).encode():
        return text
    return token_of(body)


async def load(history_fd: int, port: int, seed: str, count: int) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    workers = [SoakWorker(port, history_fd, random.Random(f"{seed}/{n}")) for n in range(count)]
    await asyncio.gather(*(worker.run(stopping) for worker in workers))


def main(history: str, port: str, seed: str, count: str) -> None:
    history_fd = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    asyncio.run(load(history_fd, int(port), seed, int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
