"""Peek at what is leased or delayed, page by page. Like `mq.store.peeking.peek` it changes nothing.

The first page lists `delay`, and the next ones go by that listing for a while. So they may lack
what was hidden after it, but nothing that was there all the time: what a page shows is read from
its file, and before a page is empty `delay` is listed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from time import monotonic
from typing import NamedTuple

from mq.commit.committer import Committer
from mq.commit.operation import InWorker, Operation
from mq.ids import id_of_key
from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName
from mq.spool.queue.hidden import MAX_HIDDEN_KEYS, HiddenListing, keys_in_state, list_hidden
from mq.spool.queue.listing import find_key
from mq.spool.spool import Spool
from mq.store.answer_memory import Share
from mq.store.peeking.peek import closing_if_refused, gather_into
from mq.store.peeking.peeked_message import PeekedMessage, close_peeked, peek_in
from mq.store.shared_looks import SharedLooks
from mq.store.shared_state import Workspace, no_message

_KEEP_FACTOR = 20
"""A listing that took T is used for this many times T."""

_MAX_LISTINGS = 8
_MAX_MESSAGES = 2 * MAX_HIDDEN_KEYS
"""How many listings are kept, and how many messages they have together."""


class HiddenAsk(NamedTuple):
    """What a peek at leased or delayed messages asks for: `limit` and `share` are those of
    `mq.store.peeking.peek.peek`."""

    queue: QueueName
    state: State
    limit: int
    share: Share | None = None


_Where = tuple[QueueName, str]
"""What is listed: a queue, and the key behind which."""


class _Kept(NamedTuple):
    """A listing, which is used until then, by the monotonic clock."""

    listing: HiddenListing
    until: float


class HiddenPeeks:
    """The peeks of one server at what is hidden. They share listings."""

    def __init__(self, work: Workspace, committer: Committer) -> None:
        self._work = work
        self._committer = committer
        self._loop = asyncio.get_running_loop()
        self._listings = SharedLooks("list hidden", self._list)
        self._kept: dict[_Where, _Kept] = {}
        self._dropping: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._dropping is not None:
            self._dropping.cancel()
        self._kept.clear()

    async def peek(self, ask: HiddenAsk, after: MessageId | None) -> list[PeekedMessage]:
        """Look at leased or at delayed messages in the order of their publication, or at those
        behind `after`. The caller closes them. Raises QueueNotFound, MessageNotFound,
        StoreUnavailable."""
        closing = partial(close_peeked, self._work.files)
        return await self._committer.run(self._peek(ask, after), closing)

    def _peek(self, ask: HiddenAsk, after: MessageId | None) -> Operation[list[PeekedMessage]]:
        work, (queue, state, limit, share) = self._work, ask
        work.require_queue(queue)
        key, kept = "", None
        if after is not None:
            found_key: str | None = yield InWorker(find_key, work.spool, queue, after)
            if found_key is None:
                raise no_message(queue, after)
            key = found_key
            kept = self._find(queue, key)
        while True:
            listing = kept or (yield from self._listings.at((queue, key))).listing
            keys = keys_in_state(work.spool, queue, listing, state, key)
            messages = peek_in_delay(work.spool, queue, state, keys)
            found: list[PeekedMessage] = []
            looking = InWorker(gather_into, found, work.files, messages, limit, share)
            yield from closing_if_refused(work.files, found, looking)
            if found:
                return found
            if kept is None:
                if listing.end is None:
                    return []
                key = listing.end
            kept = None

    def _list(self, where: _Where) -> _Kept:
        """List, and keep what was found. Blocking, for a worker."""
        started = monotonic()
        listing = list_hidden(self._work.spool, *where)
        now = monotonic()
        kept = _Kept(listing, now + _KEEP_FACTOR * (now - started))
        self._loop.call_soon_threadsafe(self._keep, where, kept)
        return kept

    def _find(self, queue: QueueName, key: str) -> HiddenListing | None:
        """Return the latest listing that has what is behind the key, if one is kept. This is called
        where operations run."""
        now = monotonic()
        for (listed, after), (listing, until) in reversed(self._kept.copy().items()):
            has_it = after <= key and (listing.end is None or key < listing.end)
            if listed == queue and has_it and now < until:
                return listing
        return None

    def _keep(self, where: _Where, kept: _Kept) -> None:
        """Keep a listing, and none of the queue from before its last first page."""
        queue, after = where
        others = [each for each in self._kept if each == where or (each[0] == queue and not after)]
        for each in others:
            del self._kept[each]
        self._kept[where] = kept
        while len(self._kept) > _MAX_LISTINGS or self._messages() > _MAX_MESSAGES:
            del self._kept[next(iter(self._kept))]
        if self._dropping is None:
            self._drop_old()

    def _messages(self) -> int:
        return sum(listing.messages for listing, _ in self._kept.values())

    def _drop_old(self) -> None:
        """Drop the listings that are not used any more, and come again for the others."""
        now = monotonic()
        self._kept = {where: kept for where, kept in self._kept.items() if now < kept.until}
        self._dropping = None
        if self._kept:
            pause = min(until for _, until in self._kept.values()) - now
            self._dropping = self._loop.call_later(pause, self._drop_old)


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
