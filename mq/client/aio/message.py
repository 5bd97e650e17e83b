"""`AsyncMessage`: a received message and its lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from mq.client import by_id, moves, publishing
from mq.client.aio.session import AsyncSession
from mq.client.arguments import queue_name, queue_names
from mq.client.errors import ClientError, LeaseLost
from mq.client.messages import Body, Delivery, NewMessage, new_messages
from mq.client.received import ReceivedMessage
from mq.client.renewals import renew
from mq.client.retries import GIVE_BACK_SECONDS, Context
from mq.client.wire import Operation, Stopped

T = TypeVar("T")

log = logging.getLogger("mq.client")


class AsyncMessage(ReceivedMessage):
    """A message under a lease.

    As a context manager it renews the lease while the block runs; if the lease is lost, the block
    is cancelled and LeaseLost is raised. At the end the message is acknowledged, or released if the
    block raises an exception. If the block has done one of these itself, nothing more is done.
    """

    def __init__(self, session: AsyncSession, delivery: Delivery) -> None:
        super().__init__(delivery)
        self._session = session
        self._renewal = AsyncRenewal(session, self)

    async def ack(self) -> None:
        """Remove the message for good. Raises LeaseLost if another receiver has or had it."""
        await self._settle(by_id.acknowledge(self._session.context, self.delivery))

    async def release(self, delay: float = 0.0) -> None:
        """Give the message back, so that it is ready at once or in `delay` seconds. Raises
        LeaseLost."""
        await self._settle(by_id.release(self._session.context, self.delivery, delay))

    async def move(self, queue: str, *, reason: str | None = None) -> None:
        """Move the message to another queue, where it is ready. With a reason it is a dead letter
        there. Raises LeaseLost, QueueNotFound, IdTaken if that queue has another message with its
        id, and, without a reason, TooOld if its `ttl` would end the message at once."""
        name, context = queue_name("queue", queue), self._session.context
        await self._settle(moves.move_delivery(context, self.delivery, name, reason))

    async def hand_over(
        self, queue: str, *messages: Body | NewMessage, also: Iterable[str] = ()
    ) -> list[str]:
        """Publish messages to the queue, and to those of `also`, and acknowledge this one: both in
        one step, or neither. Returns the ids of what was published; a NewMessage may name another
        `queue`. They must fit into one batch: see `publish_many`. Raises LeaseLost, and what
        `publish` raises."""
        queues = queue_names(queue_name("queue", queue), "also", also)
        drafts = [*new_messages(messages)]
        handing_over = publishing.hand_over(self._session.context, queues, drafts, self.delivery)
        return list(await self._settle(handing_over))

    async def extend(self, visibility: float | None = None) -> None:
        """Let the lease end in `visibility` seconds from now; None means as the queue's setting or
        the server's `--visibility` says. Renewals in a block are of that length from then on.
        Raises LeaseLost."""
        async with self._unrenewed():
            await self._run(by_id.extend(self._session.context, self.delivery, visibility))
            self.delivery.visibility = visibility

    def renewing(self) -> AsyncRenewal:
        """Return an asynchronous context manager that renews the lease while its block runs, and
        settles nothing. If the lease is lost, the block is cancelled and LeaseLost is raised."""
        return self._renewal

    async def give_back(self, delay: float = 0.0) -> None:
        """Release the message if that can be done soon. If not, it returns when the lease is
        over."""
        await self._renewal.end()
        await self._settle_soon(by_id.release(self._hurried(), self.delivery, delay), "released")
        # Even if this fails, a message that is given back is not acknowledged.
        self.is_settled = True

    def _hurried(self) -> Context:
        return self._session.context.within(GIVE_BACK_SECONDS)

    async def _settle_soon(self, operation: Operation[None], done: str) -> None:
        try:
            await self._settle(operation)
        except ClientError as error:
            log.warning("message %s of queue %s not %s: %s", self.id, self.queue, done, error)

    async def _settle(self, operation: Operation[T]) -> T:
        async with self._unrenewed():
            result = await self._run(operation)
            self.is_settled = True
        return result

    @asynccontextmanager
    async def _unrenewed(self) -> AsyncIterator[None]:
        """Pause the renewal: one on its way would undo a release. It goes on if the block still has
        the message then."""
        was_renewing = self._renewal.is_on
        try:
            await self._renewal.end()
            yield
        finally:
            if was_renewing and not self.is_settled and self.lost is None:
                self._renewal.start()

    async def _run(self, operation: Operation[T]) -> T:
        try:
            return await self._session.run(operation)
        except LeaseLost as error:
            self.lost = error
            raise

    async def __aenter__(self) -> Self:
        self._begin_block()
        await self._renewal.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._renewal.__aexit__(kind, error, traceback)
            if kind is None and self.is_to_settle:
                await self.ack()
        except asyncio.CancelledError:
            # The block has handled the message. What was cut off here may not be done.
            if kind is None and self.is_to_settle and self.lost is None:
                await acknowledge_soon(self)
            raise
        finally:
            if kind is not None and self.is_to_settle and self.lost is None:
                await self.give_back()


async def acknowledge_soon(message: AsyncMessage) -> None:
    """Acknowledge a message if that can be done soon, at the end of a task that is cancelled. If
    not, it comes again."""
    hurried = by_id.acknowledge(message._hurried(), message.delivery)
    await message._settle_soon(hurried, "acknowledged")


class AsyncRenewal:
    """Renews a message's lease after each third of it, in a task of its own, until the block ends
    or the message is settled. If the lease is lost, the task that runs the block is cancelled;
    leaving the block raises LeaseLost in place of that cancellation, as `asyncio.timeout` does."""

    def __init__(self, session: AsyncSession, message: AsyncMessage) -> None:
        self._session = session
        self._message = message
        self._stop = asyncio.Event()
        self._renewer: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._has_cancelled = False

    async def __aenter__(self) -> AsyncMessage:
        if self._renewer is not None:
            raise RuntimeError("the lease of this message is being renewed already")
        self._has_cancelled = False
        self._owner = asyncio.current_task()
        assert self._owner is not None
        self._cancelling = self._owner.cancelling()
        self.start()
        return self._message

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.end()
        assert self._owner is not None
        is_ours = self._has_cancelled and self._owner.uncancel() <= self._cancelling
        is_over = kind is None or (is_ours and issubclass(kind, asyncio.CancelledError))
        if is_over and self._message.lost is not None:
            raise self._message.lost from error

    @property
    def is_on(self) -> bool:
        return self._renewer is not None

    def start(self) -> None:
        assert self._owner is not None
        self._stop.clear()
        self._renewer = asyncio.create_task(self._renew(self._owner))

    async def end(self) -> None:
        """Stop renewing. A renewal under way is waited for: if it were cut off, it might be done
        all the same and make a new lease."""
        renewer, self._renewer = self._renewer, None
        if renewer is None:
            return
        self._stop.set()
        try:
            # The renewer may have been cancelled too: asyncio.run() cancels all tasks at its end.
            await asyncio.wait([renewer])
        finally:
            renewer.cancel()

    async def _renew(self, owner: asyncio.Task[object]) -> None:
        delivery = self._message.delivery
        renewal = renew(self._session.context, delivery, delivery.visibility)
        try:
            await self._session.run(renewal, self._stop)
        except Stopped:
            pass
        except LeaseLost as error:
            self._message.lost = error
            if not self._stop.is_set():
                self._has_cancelled = True
                owner.cancel()
