"""Receives on the event loop. They wait in line, and messages are given back when nobody waits for
the answer any more."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import structlog

from mq.commit.awaited import outcome, settle
from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted
from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.store.answer_memory import AnswerMemory
from mq.store.receiving.joint_receives import JointReceives
from mq.store.receiving.long_receive import LongPoll, LongReceive, Taking, leave_to_the_next
from mq.store.receiving.oldest import Ask
from mq.store.receiving.put_back import put_back, put_back_or_log
from mq.store.receiving.receive import Receive, ReceivedOrBusy, receive_first, receive_some
from mq.store.receiving.received_message import Received
from mq.store.receiving.watching import Watching
from mq.store.shared_state import Workspace

log = structlog.get_logger(__name__)


class Receives:
    """Everything that is received on one server."""

    def __init__(self, work: Workspace, committer: Committer, memory: AnswerMemory) -> None:
        self._work = work
        self._committer = committer
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._tries: Counter[QueueName] = Counter()
        """How many messages are asked for at once by those that may also wait."""
        self._left: list[Received] = []
        self._watching = Watching(work, committer)
        self.waiting = self._watching.waiting
        self._joint = JointReceives(work, committer, self._watching, memory, self.give_back)
        self._taking = Taking(work, committer, self.waiting, self._joint, self.give_back)

    async def close(self) -> None:
        """Let all waiting requests go, and wait for what runs in the background. What is given back
        after that is left to `put_back_left`."""
        self._watching.close()
        self._is_closing = True
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(
        self,
        queues: Sequence[QueueName],
        ask: Ask,
        wait: float | LongPoll,
        by: Receive = receive_some,
    ) -> list[Received]:
        """Take the messages that `by` chooses, as a rule the oldest, of the first of these queues
        that has any. Waits for the first one, for as long as `wait` says or up to that many
        seconds, in order of arrival.

        A request that waits comes before one that does not. If the caller is cancelled, the
        messages are put back. Raises QueueNotFound, StoreUnavailable.
        """
        poll = wait if isinstance(wait, LongPoll) else LongPoll(wait)
        if not poll.is_over:
            return await self._receive_in_line(queues, ask, poll, by)
        asked = [(queue, ask._replace(leave=self.waiting.count(queue))) for queue in queues]

        def abandon(taken: ReceivedOrBusy) -> None:
            if isinstance(taken, list):
                self.give_back(taken)
            else:
                leave_to_the_next(self.waiting, queues)

        taken = await self._committer.run(receive_first(self._work, asked, by), abandon)
        if isinstance(taken, list) and taken:
            return taken
        for queue in queues:
            self._watching.wake_for_what_is_left(queue, 1)
        return []

    def wait(
        self,
        queues: Sequence[QueueName],
        ask: Ask,
        poll: LongPoll,
        done: Done,
        by: Receive = receive_some,
    ) -> LongReceive:
        """Begin to receive as `receive` does, for a caller that does not wait. `done` gets what
        that returns or raises, on the event loop, never at once. Raises StoreUnavailable."""
        waiting = LongReceive(self._taking, queues, ask, poll, by=by, done=done)
        waiting.begin_later()
        return waiting

    def submit(
        self,
        queue: QueueName,
        done: Done,
        limit: int = 1,
        visibility_ns: int | None = None,
        *,
        may_wait: bool = False,
        by: Receive | None = None,
    ) -> None:
        """Take up to `limit` messages at once: those that `by` chooses, or else the oldest. `done`
        gets what `receive` returns or raises, on the event loop, never at once; no share holds the
        memory of the bodies any more. Those that `may_wait` count in `count_spare` until then."""
        if may_wait:
            done = self._counted(queue, limit, done)
        if by is None:
            self._joint.submit(queue, visibility_ns, limit, done)
        else:
            self._submit_by(queue, Ask(visibility_ns, limit), done, by)

    def _submit_by(self, queue: QueueName, ask: Ask, done: Done, by: Receive) -> None:
        share = self._memory.share()

        def end(taken: ReceivedOrBusy | None, error: BaseException | None) -> None:
            share.end()
            received = taken if isinstance(taken, list) else []
            if not received and error is None:
                self._watching.wake_for_what_is_left(queue, 1)
            done(received, error)

        asked = ask._replace(leave=self.waiting.count(queue), share=share)
        self._committer.submit(Submitted(by(self._work, queue, asked), end))

    def _counted(self, queue: QueueName, limit: int, done: Done) -> Done:
        """Count what is asked for until `done` is called."""
        self._tries[queue] += limit

        def end(taken: Any, error: BaseException | None) -> None:
            self._tries[queue] -= limit
            if not self._tries[queue]:
                del self._tries[queue]
            done(taken, error)

        return end

    def count_spare(self, queue: QueueName, known: int | None = None) -> int:
        """Return how many of the `known` messages of a queue, as a rule those in the index, neither
        those who wait for one will get nor those that may wait and are just tried."""
        if known is None:
            ready = self._work.ready.get(queue)
            known = 0 if ready is None else len(ready)
        return known - self.waiting.count(queue) - self._tries[queue]

    async def _receive_in_line(
        self, queues: Sequence[QueueName], ask: Ask, poll: LongPoll, by: Receive
    ) -> list[Received]:
        future: asyncio.Future[list[Received]] = self._loop.create_future()
        done = partial(settle, future, self.give_back)
        waiting = LongReceive(self._taking, queues, ask, poll, by=by, done=done)
        waiting.begin()
        try:
            return await outcome(future, self.give_back)
        except asyncio.CancelledError:
            waiting.cancel()
            raise

    async def take(self, taking: Operation[Received]) -> Received:
        """Take a certain message. If the caller is cancelled, the message is as it was before.
        Raises what `taking` raises."""
        return await self._committer.run(taking, lambda received: self.give_back([received]))

    async def put_back(self, received: Received) -> None:
        """Put back a message that its receiver never got. This never raises, because the lease ends
        anyway."""
        try:
            await self._committer.call(put_back, self._work, received)
        except StoreUnavailable as error:
            log.warning("a message could not be put back", error=str(error))

    def give_back(self, taken: Iterable[Received]) -> None:
        """Close messages that nobody waits for any more, and put them back in the background."""
        for received in taken:
            received.close(self._work.files)
            if self._is_closing:
                self._left.append(received)
                continue
            task = self._loop.create_task(self.put_back(received))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def put_back_left(self) -> None:
        """Put messages back whose receivers were gone when the last operations ended. Blocking; the
        committer is closed."""
        self._work.begin_round()
        for received in self._left:
            put_back_or_log(self._work, received)
        self._work.end_calls()
