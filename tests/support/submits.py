"""Requests to a store from callers that do not wait, for those that do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mq.commit.operation import Submitted
from mq.config import SMALL_BODY_BYTES
from mq.errors import IdTaken, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.publishing.publish import Draft, Published
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.crash.enumeration.properties import properties_of


async def answered(submit: Callable[..., None], *asked: Any) -> Any:
    """Return what a `submit_...` of a store answers, or raise it. Those that begin in one turn of
    the event loop are one operation."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: object, error: BaseException | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    submit(*asked, done)
    result = await future
    assert not isinstance(result, BaseException), "what is wrong was told as a result"
    return result


Outcome = Published | BaseException
"""What a publish returns or raises."""


async def publish_each(store: Store, *asked: tuple[QueueName, Draft]) -> list[Outcome]:
    """Publish in one turn of the event loop."""
    asking = [answered(store.submit_publish, *each) for each in asked]
    async with asyncio.timeout(20):
        return [*await asyncio.gather(*asking, return_exceptions=True)]


def ids_of(outcomes: Iterable[Outcome]) -> list[MessageId]:
    """Return the ids of those that were published."""
    return [each.message_id for each in outcomes if isinstance(each, Published)]


def note_operations(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[Submitted]:
    """Return a list of the operations of these names that are submitted from now on."""
    made: list[Submitted] = []
    begin = Submitted.__init__

    def note(self: Submitted, *arguments: Any) -> None:
        begin(self, *arguments)
        if getattr(self.operation, "__name__", "") in names:
            made.append(self)

    monkeypatch.setattr(Submitted, "__init__", note)
    return made


def name_of(submitted: Submitted) -> str:
    """Return the name of the function that made an operation, "" for another call."""
    return str(getattr(getattr(submitted, "operation", None), "__name__", ""))


def refuse_at_once(submitted: Submitted) -> None:
    """Refuse an operation as a committer does for which too many others wait."""
    submitted.done(None, StoreUnavailable("too many requests wait for the disk"))


def refuse_before_its_round(submitted: Submitted) -> None:
    """Refuse an operation as a committer does after a barrier has failed."""
    submitted.failure = StoreUnavailable("a sync has failed")
    submitted.advance()
    submitted.done(submitted.result, submitted.error)


NOT_PUBLISHED = (StoreUnavailable, IdTaken)
"""What `publish_as_asked` raises when a sync has failed, or another file got the id meanwhile."""


async def publish_as_asked(store: Store, queue: QueueName, draft: Draft) -> Published:
    """Publish what has its body in memory as HTTP does: a large body in two pieces, and a small one
    together with others."""
    body = draft.body or b""
    if len(body) > SMALL_BODY_BYTES:
        async with store.open_upload() as upload:
            await upload.write(body[: len(body) // 2])
            last = body[len(body) // 2 :]
            uploaded = await upload.finish(last, draft.content_type, properties_of(body))
            return await store.publish(queue, replace(uploaded, delay_ns=draft.delay_ns))
    published: Published = await answered(store.submit_publish, queue, draft)
    return published


async def receive_one(store: Store, queue: QueueName) -> Received | None:
    """Receive as HTTP does, together with others of one turn of the event loop."""
    taken: list[Received] = await answered(store.submit_receive, queue)
    return taken[0] if taken else None


class QuickStore:
    """A store that receives messages and removes single ones as HTTP does: those that are asked for
    in one turn of the event loop together, each message for its queue's usual time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def receive_many(self, queue: QueueName, limit: int, seconds: float) -> list[Received]:
        submit = partial(self._store.submit_receive, limit=limit)
        received: list[Received] = await answered(submit, queue)
        return received

    async def remove(
        self, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None
    ) -> None:
        await answered(self._store.submit_remove, queue, message_id, leases)
