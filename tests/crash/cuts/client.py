"""A client of its own process, whose log lies outside of the file system that is cut.

    python -m tests.crash.cuts.client LOG

Each line of stdin is the port of a server: it is loaded until it is gone, and a line on stdout says
so. Each line of the log is a JSON array: what was asked before the request, what was answered after
its answer was read (`tests.crash.cuts.ledger` reads it).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from tests.crash.cuts.bodies import body_of, new_token, token_of
from tests.crash.load import LoadAnswer, LoadClient, ServerGone, client_at

PUBLISHERS, CONSUMERS, REMOVERS, OWNERS = 5, 4, 1, 1
_KEPT_FRACTION = 0.3
"""This fraction of the received messages is not removed: their leases are what must last."""

QUEUE = "orders"

Work = Callable[["CutSession"], Awaitable[None]]


def lease_of(answer: LoadAnswer, asked_ns: int) -> tuple[str, str | None, str, str, int, int]:
    """Id, token, ETag, X-Visible-At, and when it was asked for and answered."""
    etag, visible_at = answer.headers["etag"], answer.headers["x-visible-at"]
    times_ns = asked_ns, time.time_ns()
    return answer.message_id, token_of(answer.body), etag, visible_at, *times_ns


class CutSession:
    """One connection of the client."""

    def __init__(self, client: LoadClient, log_fd: int, recent: deque[str]) -> None:
        self._client = client
        self._log_fd = log_fd
        self.recent = recent

    def note(self, *event: object) -> None:
        """One write(2), so that the log is whole at any moment."""
        os.write(self._log_fd, json.dumps(event).encode() + b"\n")

    async def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> LoadAnswer:
        """One that is refused pauses the session, which would spin otherwise."""
        answer = await self._client.request(method, target, body, **headers)
        if answer.status in (204, 503):
            await asyncio.sleep(0.005)
        return answer

    async def publish(self, queue: str = QUEUE) -> None:
        token = new_token()
        self.note("asked to publish", token, queue)
        answer = await self.ask("POST", f"/{queue}/messages", body_of(token))
        if answer.status == 201:
            self.note("published", answer.message_id, token, queue)
            self.recent.append(answer.message_id)

    async def receive(self) -> LoadAnswer:
        asked_ns = time.time_ns()
        answer = await self.ask("GET", f"/{QUEUE}/messages")
        if answer.status == 200:
            self.note("leased", *lease_of(answer, asked_ns))
        return answer

    async def remove(self, message_id: str, tag: str = "*") -> None:
        self.note("asked to remove", message_id)
        answer = await self.ask("DELETE", f"/{QUEUE}/messages/{message_id}", If_Match=tag)
        if answer.status == 202:
            self.note("removed", message_id, time.time_ns())


async def publish(session: CutSession) -> None:
    await session.publish()


async def consume(session: CutSession) -> None:
    received = await session.receive()
    if received.status == 200 and random.random() > _KEPT_FRACTION:
        tag = random.choice(["*", received.headers["etag"]])
        await session.remove(received.message_id, tag)


async def remove(session: CutSession) -> None:
    """A message that may be ready, leased, or removed already."""
    await asyncio.sleep(0.002)
    if session.recent:
        await session.remove(random.choice(session.recent))


async def own_a_queue(session: CutSession) -> None:
    """Make a queue, use it, delete it."""
    name = f"own-{new_token()[:12]}"
    session.note("asked to make", name)
    if (await session.ask("PUT", f"/{name}")).status != 201:
        return
    session.note("made", name)
    await session.publish(name)
    await session.ask("GET", f"/{name}/messages")
    session.note("asked to delete", name)
    if (await session.ask("DELETE", f"/{name}")).status == 200:
        session.note("deleted", name)


WORKERS: Sequence[Work] = (
    [publish] * PUBLISHERS + [consume] * CONSUMERS + [remove] * REMOVERS + [own_a_queue] * OWNERS
)


async def load(port: int, log_fd: int) -> None:
    """Send requests until the server is gone."""
    recent: deque[str] = deque(maxlen=200)

    async def run(work: Work) -> None:
        try:
            async with client_at(port) as client:
                session = CutSession(client, log_fd, recent)
                while True:
                    await work(session)
        except ServerGone:
            pass

    await asyncio.gather(*map(run, WORKERS))


def main() -> None:
    log_fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for line in sys.stdin:
        asyncio.run(load(int(line), log_fd))
        print("gone", flush=True)


if __name__ == "__main__":
    main()
