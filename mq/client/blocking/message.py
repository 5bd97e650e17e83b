"""`Message`: a received message and its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from mq.client import by_id, moves, publishing
from mq.client.arguments import queue_name, queue_names
from mq.client.blocking.due_renewals import due_renewals
from mq.client.blocking.session import Session
from mq.client.errors import ClientError, LeaseLost
from mq.client.messages import Body, Delivery, NewMessage, new_messages
from mq.client.received import ReceivedMessage
from mq.client.renewals import renew, seconds_to_renewal
from mq.client.retries import GIVE_BACK_SECONDS
from mq.client.wire import Operation, Stopped

T = TypeVar("T")

log = logging.getLogger("mq.client")


class Message(ReceivedMessage):
    """A message under a lease.

    As a context manager it renews the lease while the block runs. At the end the message is
    acknowledged, or released if the block raises an exception. If the block has done one of these
    itself, nothing more is done.
    """

    def __init__(self, session: Session, delivery: Delivery) -> None:
        super().__init__(delivery)
        self._session = session
        self._renewal = Renewal(session, self)

    def ack(self) -> None:
        """Remove the message for good. Raises LeaseLost if another receiver has or had it."""
        self._settle(by_id.acknowledge(self._session.context, self.delivery))

    def release(self, delay: float = 0.0) -> None:
        """Give the message back, so that it is ready at once or in `delay` seconds. Raises
        LeaseLost."""
        self._settle(by_id.release(self._session.context, self.delivery, delay))

    def move(self, queue: str, *, reason: str | None = None) -> None:
        """Move the message to another queue, where it is ready. With a reason it is a dead letter
        there. Raises LeaseLost, QueueNotFound, IdTaken if that queue has another message with its
        id, and, without a reason, TooOld if its `ttl` would end the message at once."""
        name, context = queue_name("queue", queue), self._session.context
        self._settle(moves.move_delivery(context, self.delivery, name, reason))

    def hand_over(
        self, queue: str, *messages: Body | NewMessage, also: Iterable[str] = ()
    ) -> list[str]:
        """Publish messages to the queue, and to those of `also`, and acknowledge this one: both in
        one step, or neither. Returns the ids of what was published; a NewMessage may name another
        `queue`. They must fit into one batch: see `publish_many`. Raises LeaseLost, and what
        `publish` raises."""
        queues = queue_names(queue_name("queue", queue), "also", also)
        drafts = [*new_messages(messages)]
        handing_over = publishing.hand_over(self._session.context, queues, drafts, self.delivery)
        return list(self._settle(handing_over))

    def extend(self, visibility: float | None = None) -> None:
        """Let the lease end in `visibility` seconds from now; None means as the queue's setting or
        the server's `--visibility` says. Renewals in a block are of that length from then on.
        Raises LeaseLost."""
        with self._unrenewed():
            self._run(by_id.extend(self._session.context, self.delivery, visibility))
            self.delivery.visibility = visibility

    def renewing(self) -> Renewal:
        """Return a context manager that renews the lease while its block runs, and settles nothing.
        If the lease is lost, it raises LeaseLost at the end of the block."""
        return self._renewal

    def give_back(self, delay: float = 0.0) -> None:
        """Release the message if that can be done soon. If not, it returns when the lease is
        over."""
        hurried = self._session.context.within(GIVE_BACK_SECONDS)
        self._renewal.end()
        try:
            self._settle(by_id.release(hurried, self.delivery, delay))
        except ClientError as error:
            log.warning("message %s of queue %s not released: %s", self.id, self.queue, error)
        # Even if this fails, a message that is given back is not acknowledged.
        self.is_settled = True

    def _settle(self, operation: Operation[T]) -> T:
        with self._unrenewed():
            result = self._run(operation)
            self.is_settled = True
        return result

    @contextmanager
    def _unrenewed(self) -> Iterator[None]:
        """Pause the renewal: one on its way would undo a release. It goes on if the block still has
        the message then."""
        was_renewing = self._renewal.is_on
        try:
            self._renewal.end()
            yield
        finally:
            if was_renewing and not self.is_settled and self.lost is None:
                self._renewal.start()

    def _run(self, operation: Operation[T]) -> T:
        try:
            return self._session.run(operation)
        except LeaseLost as error:
            self.lost = error
            raise

    def __enter__(self) -> Self:
        self._begin_block()
        self._renewal.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._renewal.end()
        if not self.is_to_settle:
            return
        if kind is None:
            # It is acknowledged even if its lease seems lost, because only the server knows.
            self.ack()
        elif self.lost is None:
            self.give_back()


class Renewal:
    """Renews a message's lease after each third of it, until the block ends or the message is
    settled. If the lease is lost, `is_lost` of the message says so, but nothing can interrupt the
    block. From the first renewal on it has a thread of its own."""

    def __init__(self, session: Session, message: Message) -> None:
        self._session = session
        self._message = message
        self._is_for_block = False
        self._stop: threading.Event
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Message:
        if self._is_for_block:
            raise RuntimeError("the lease of this message is being renewed already")
        self.start()
        return self._message

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
        if kind is None and self._message.lost is not None:
            raise self._message.lost

    @property
    def is_on(self) -> bool:
        # In a forked process the thread does not run.
        is_running = self._thread is not None and self._thread.is_alive()
        return is_running or self in due_renewals

    def start(self) -> None:
        """Renew the lease from now on. Raises RuntimeError if the system has no thread for that."""
        self._is_for_block = True
        seconds = seconds_to_renewal(self._message.delivery, time.monotonic(), least=0.0)
        try:
            due_renewals.add(self, self._begin, seconds)
        except BaseException:
            # There is no thread, or a signal handler has raised. If that begins a block, the block
            # will have no end.
            self.end()
            raise

    def _begin(self) -> None:
        """Make the first renewal, which is due, and those that follow, in a thread."""
        self._stop = threading.Event()
        thread = threading.Thread(target=self._renew, name="mq-renewal", daemon=True)
        thread.start()
        self._thread = thread

    def end(self) -> None:
        """Stop renewing. A renewal under way is waited for: if it were cut off, it might be done
        all the same and make a new lease."""
        self._is_for_block = False
        due_renewals.discard(self)
        thread, self._thread = self._thread, None
        # In a forked process a lock that the thread held stays taken.
        if thread is not None and thread.is_alive():
            self._stop.set()
            thread.join()

    def _renew(self) -> None:
        delivery = self._message.delivery
        renewal = renew(self._session.context, delivery, delivery.visibility)
        try:
            self._session.run(renewal, self._stop)
        except Stopped:
            pass
        except LeaseLost as error:
            self._message.lost = error
