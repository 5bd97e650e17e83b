"""A receive that waits in line, for a caller that is told by a callback. Used on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mq.commit.committer import Committer
from mq.commit.operation import Done, Submitted
from mq.names import QueueName
from mq.spool.message.held import Lost
from mq.store.receiving.joint_receives import JointReceives
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import Receive, ReceivedOrBusy, receive_first, receive_some
from mq.store.receiving.received_message import Received
from mq.store.receiving.waiting import Waiter, Waiters
from mq.store.shared_state import Workspace

_BUSY_PAUSE_SECONDS = (0.01, 1.0)
"""The first and the longest pause of a long poll while others hold all messages."""


class LongPoll:
    """How long a receive waits, from now on."""

    __slots__ = ("_loop", "deadline", "waiter")

    def __init__(self, wait_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.deadline = self._loop.time() + wait_seconds
        self.waiter: Waiter | None = None

    @property
    def is_over(self) -> bool:
        return self._loop.time() >= self.deadline

    def end(self) -> None:
        """Let the receive wait no longer. It gets what is there, and what it is just taking."""
        self.deadline = 0.0
        if self.waiter is not None:
            self.waiter.leave()


class Taking(NamedTuple):
    """What takes messages for those who wait, of one queue with others of the round, and takes back
    what nobody waits for any more."""

    work: Workspace
    committer: Committer
    waiting: Waiters
    joint: JointReceives
    give_back: Callable[[Iterable[Received]], None]


class LongReceive:
    """Takes the messages that `by` chooses of the first of some queues that has any, and waits for
    the first one as long as `poll` says, in order of arrival. `done` gets the messages, of which
    there may be none, or what `receive_first` raises."""

    __slots__ = (
        "_ask", "_by", "_done", "_has_tried", "_is_over", "_loop", "_pause", "_poll", "_queues",
        "_taking", "_waiter", "_was_busy",
    )  # fmt: skip

    def __init__(
        self,
        taking: Taking,
        queues: Sequence[QueueName],
        ask: Ask,
        poll: LongPoll,
        *,
        by: Receive,
        done: Done,
    ) -> None:
        """Join the lines of the queues. Raises StoreUnavailable if too many wait."""
        self._taking = taking
        self._queues = queues
        self._ask = ask
        self._by = by
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._pause = _BUSY_PAUSE_SECONDS[0]
        self._has_tried = self._was_busy = self._is_over = False
        self._poll = poll
        self._waiter = poll.waiter = taking.waiting.enter(queues, self._go_on)

    def begin(self) -> None:
        """Try to take what is there. `done` may be called at once."""
        if self._is_over:
            return
        if self._taking.waiting.is_stopped:
            self._end([], None)
        else:
            self._try_alone()

    def begin_later(self) -> None:
        """Begin with the next round, behind those that came before and share an operation."""
        if not self._is_of_one_queue:
            self._taking.committer.submit_later(self.begin)
        elif self._is_all_for_others():
            self._park(was_busy=False)
        else:
            self._try_together()

    def _is_all_for_others(self) -> bool:
        """Return whether others wait already, and the queue is known to have no more messages than
        are for them: a try would find nothing."""
        work, queue = self._taking.work, self._queues[0]
        ahead, ready = self._waiter.ahead(queue), work.ready.get(queue)
        if not ahead or ready is None or len(ready) > ahead:
            return False
        is_well = self._taking.committer.failure is None and not self._taking.waiting.is_stopped
        return is_well and ready.is_loaded and work.sees_all_events(queue)

    def cancel(self) -> None:
        """End it for nobody. What is just being taken is given back, and `done` is not called."""
        if not self._is_over:
            self._waiter.cancel()
            self._leave()

    def _go_on(self, has_turn: bool) -> None:
        """Try again, or end if there is no turn any more. Nobody ends without a try."""
        is_late = self._poll.is_over and self._has_tried and not has_turn
        if self._taking.waiting.is_stopped or is_late:
            self._end([], None)
        elif self._is_of_one_queue:
            self._try_together()
        else:
            self._try_alone()

    @property
    def _is_of_one_queue(self) -> bool:
        return len(self._queues) == 1 and self._by is receive_some

    def _try_together(self) -> None:
        """Try with others of the next round."""
        ask = self._ask
        asked = self._queues[0], ask.visibility_ns, ask.limit
        self._taking.joint.submit(*asked, self._tried, self._waiter)

    def _try_alone(self) -> None:
        """Try at once, and leave as many messages of each queue as are for those ahead."""
        self._waiter.begin_turn()
        ahead = self._waiter.ahead
        asked = [(queue, self._ask._replace(leave=ahead(queue))) for queue in self._queues]
        receiving = receive_first(self._taking.work, asked, self._by)
        self._taking.committer.submit(Submitted(receiving, self._tried))

    def _tried(self, taken: ReceivedOrBusy | None, error: BaseException | None) -> None:
        self._has_tried = True
        if self._is_over:
            if isinstance(taken, list):
                self._taking.give_back(taken)
            elif error is None:
                leave_to_the_next(self._taking.waiting, self._queues)
            return
        if error is not None:
            self._waiter.end_turn(None)
            self._end(None, error)
        elif isinstance(taken, list) and taken:
            self._waiter.end_turn(taken[0].queue)
            self._end(taken, None)
        elif self._taking.waiting.is_stopped:
            # It was stopped during the try: nothing would wake this request.
            self._was_busy = taken is Lost.BUSY
            self._end([], None)
        else:
            self._park(was_busy=taken is Lost.BUSY)

    def _park(self, *, was_busy: bool) -> None:
        until, self._was_busy = self._poll.deadline, was_busy
        if was_busy:
            until = min(until, self._loop.time() + self._pause)
            self._pause = min(2 * self._pause, _BUSY_PAUSE_SECONDS[1])
        self._waiter.park(until)

    def _end(self, taken: list[Received] | None, error: BaseException | None) -> None:
        self._leave()
        self._done(taken, error)

    def _leave(self) -> None:
        self._is_over = True
        self._taking.waiting.exit(self._waiter)
        if self._was_busy:  # Also if this one has got another message meanwhile.
            leave_to_the_next(self._taking.waiting, self._queues)


def leave_to_the_next(waiting: Waiters, queues: Iterable[QueueName]) -> None:
    """Have the next request look for messages that others hold: nothing tells of the moment when
    one is free."""
    for queue in queues:
        waiting.wake(queue, 1)
