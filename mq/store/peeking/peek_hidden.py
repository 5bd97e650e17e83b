"""Peek at what is leased or delayed, page by page. Like `mq.store.peeking.peek` it changes
nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import structlog

from mq.commit.committer import Committer
from mq.commit.operation import InWorker, Operation, Shared
from mq.errors import StoreUnavailable
from mq.ids import id_of_key
from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName
from mq.spool.queue.listing import find_key
from mq.spool.spool import Spool
from mq.store.answer_memory import Share
from mq.store.peeking.peek import closing_if_refused
from mq.store.peeking.peeked_message import PeekedMessage, close_peeked, gather, peek_in
from mq.store.shared_state import Workspace, no_message

log = structlog.get_logger(__name__)

_MAX_LOADS = 8
"""How often `delay` is listed for one page: what was listed may all be gone when it is read."""

_KEEP_UP_SECONDS = 0.5
"""Between two looks at the events: the kernel's queue has room for those of about a second."""


class HiddenPeeks:
    """The peeks at what is hidden, and while there are any, what keeps them cheap."""

    def __init__(self, work: Workspace, committer: Committer, workers: Executor) -> None:
        self._work = work
        self._committer = committer
        self._workers = workers
        self._peeks = 0
        self._keeping: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop, and drop what was listed. On return nothing runs."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self._work.hidden.close()

    async def peek(self, ask: HiddenAsk, after: MessageId | None) -> list[PeekedMessage]:
        """Run `peek_hidden`."""
        self._peeks += 1
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_up())
        closing = partial(close_peeked, self._work.files)
        return await self._committer.run(peek_hidden(self._work, ask, after), closing)

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(_KEEP_UP_SECONDS)
                peeks = self._peeks
                try:
                    is_used = await loop.run_in_executor(self._workers, self._work.hidden.keep_up)
                except OSError as error:
                    log.warning("looking at leased and delayed messages failed", error=str(error))
                    continue
                # A peek may have begun just when everything was dropped.
                if not is_used and peeks == self._peeks:
                    return
        finally:
            self._keeping = None


class HiddenAsk(NamedTuple):
    """What a peek at leased or delayed messages asks for: `limit` and `share` are those of
    `mq.store.peeking.peek.peek`."""

    queue: QueueName
    state: State
    limit: int
    share: Share | None = None


def peek_hidden(
    work: Workspace, ask: HiddenAsk, after: MessageId | None = None
) -> Operation[list[PeekedMessage]]:
    """Look at leased or at delayed messages in the order of their publication, or at those behind
    `after`. The caller closes them. Raises QueueNotFound, MessageNotFound, StoreUnavailable."""
    queue = ask.queue
    work.require_queue(queue)
    key = ""
    if after is not None:
        found_key: str | None = yield InWorker(find_key, work.spool, queue, after)
        if found_key is None:
            raise no_message(queue, after)
        key = found_key
    for _ in range(_MAX_LOADS):
        found: list[PeekedMessage] = []
        peeking = InWorker(_look, work, ask, key, found)
        is_listed, key = yield from closing_if_refused(work.files, found, peeking)
        if is_listed:
            return found
        yield Shared(f"list hidden {queue} {key}", partial(_load, work, queue, key))
    raise StoreUnavailable(f"the messages of queue {queue} change too fast to be listed; try again")


def _load(work: Workspace, queue: QueueName, key: str) -> Operation[None]:
    yield InWorker(work.hidden.load, queue, key)


def _look(
    work: Workspace, ask: HiddenAsk, key: str, found: list[PeekedMessage]
) -> tuple[bool, str]:
    """Enter in `found` the first messages behind `key`. Returns False if `delay` must be listed
    first, and the key behind which. Blocking, for a worker."""
    queue, state, limit, share = ask
    read_to = ""
    while True:
        page = work.hidden.page(queue, state, key, limit, read_to)
        if page is None:
            return False, key
        if page.unread:
            work.hidden.read(queue, page.unread)
            read_to = page.unread[-1]
            continue
        messages = peek_in_delay(work.spool, queue, state, page.keys)
        found += gather(work.files, messages, limit, share)
        if found or (not page.keys and page.end is None):
            return True, key
        key = page.keys[-1] if page.keys else page.end or key


def peek_in_delay(
    spool: Spool, queue: QueueName, state: State, keys: Iterable[str]
) -> Iterator[PeekedMessage]:
    """Yield the messages with these keys that are in that state. One that alone cannot be read is
    passed over. Blocking. Raises OSError."""
    for key in keys:
        peeked = peek_in(spool, Folder.DELAY, queue, MessageId(id_of_key(key)))
        if peeked is None:
            continue
        if peeked.state == state:
            yield peeked
        else:
            peeked.close(spool.files)
