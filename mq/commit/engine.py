"""What both committers on an event loop have in common: they run operations from need to need, and
have everything but the barrier done elsewhere."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from mq.commit.barrier import Unsynced
from mq.commit.operation import (
    SETTLED,
    Called,
    InWorker,
    Operation,
    Pause,
    Shared,
    Submitted,
    Together,
)
from mq.disk.file_work import FileCalls, make_calls
from mq.metrics.histogram import CommitStats

T = TypeVar("T")


class Engine:
    """The operations of one committer that are under way. `end_calls` is called before anything
    else is waited for: an operation that waits holds no queue."""

    def __init__(self, end_calls: Callable[[], None], workers: Executor) -> None:
        self._end_calls = end_calls
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self.stats = CommitStats()
        self._failed_barriers = 0
        self._away = 0
        self._leaving: list[Submitted] = []
        self._ready: list[Submitted] = []
        self._ended: list[Submitted] = []
        self._shared: dict[str, list[Submitted]] = {}

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(Called(function, arguments, partial(settle, future, None)))
        return await outcome(future, None)

    def submit(self, submitted: Submitted) -> None:
        """Begin with an operation, on the event loop. Its `done` is never called from within."""
        raise NotImplementedError

    def _come_back(self, submitted: Submitted) -> None:
        """Take back an operation whose wait is over. Any thread may call it."""
        raise NotImplementedError

    def _advance(self, ready: list[Submitted]) -> list[Submitted]:
        """Run each operation as far as it comes alone, and return those that need a barrier. Those
        that ended are in `_ended` then; `_send_away` is for the others. `ready` grows by operations
        that can go on because of these. The file calls that they ask for are made together."""
        unsynced: list[Submitted] = []
        unsettled: deque[Submitted] = deque()
        if len(ready) == 1:
            ready = self._advance_alone(ready[0], unsynced)
        while ready:
            self._ready = ready
            calling: list[Submitted] = []
            for each in ready:
                each.advance()
                need = each.need
                if type(need) is FileCalls:
                    calling.append(each)
                elif type(need) is Unsynced:
                    unsynced.append(each)
                elif need is SETTLED:
                    unsettled.append(each)
                elif need is not None:
                    self._wait(each)
                else:
                    self._end(each)
            if calling:
                answer_calls(calling)
                ready = calling
            else:
                ready = [unsettled.popleft()] if unsettled else []
        return unsynced

    def _advance_alone(self, each: Submitted, unsynced: list[Submitted]) -> list[Submitted]:
        """Run an operation with nobody beside it as far as it comes. Returns those that can go on
        because of it, and enters it in `unsynced` if it needs a barrier."""
        ready: list[Submitted] = []
        self._ready = ready
        each.advance_alone()
        if type(each.need) is Unsynced:
            unsynced.append(each)
        elif each.need is not None:
            self._wait(each)
        else:
            self._end(each)
        return ready

    def _end(self, each: Submitted) -> None:
        each.is_over = True
        if each.then is None:
            self._ended.append(each)
        else:
            each.then(each)

    def _wait(self, each: Submitted) -> None:
        need = each.need
        self._away += 1
        each.failed_barriers = self._failed_barriers
        if isinstance(need, Together):
            self._run_parts(each, need.operations)
        elif isinstance(need, Shared):
            self._join(each, need)
        else:
            self._leaving.append(each)

    def _go_on(self, each: Submitted) -> None:
        """Go on with an operation that has waited for others, which are over now."""
        self._away -= 1
        if not each.is_over:
            self._ready.append(each)

    def _run_parts(self, whole: Submitted, operations: Sequence[Operation[Any]]) -> None:
        outcomes: list[Any] = [None] * len(operations)
        left = len(operations)

        def end(number: int, part: Submitted) -> None:
            nonlocal left
            outcomes[number] = part.result if part.error is None else part.error
            left -= 1
            if not left:
                whole.answer = outcomes
                self._go_on(whole)

        for number, operation in enumerate(operations):
            part = Submitted(operation)
            part.then = partial(end, number)
            self._ready.append(part)
        if not operations:
            whole.answer = outcomes
            self._go_on(whole)

    def _join(self, each: Submitted, need: Shared) -> None:
        members = self._shared.get(need.key)
        if members is not None:
            members.append(each)
            return
        self._shared[need.key] = [each]
        only = Submitted(need.make())
        only.then = partial(self._end_shared, need.key)
        self._ready.append(only)

    def _end_shared(self, key: str, only: Submitted) -> None:
        for each in self._shared.pop(key):
            each.answer, each.failure = only.result, only.error
            self._go_on(each)

    def _send_away(self) -> None:
        """Have done what operations wait for. It is called after `_end_calls`."""
        leaving, self._leaving = self._leaving, []
        for each in leaving:
            need = each.need
            if isinstance(need, Pause):
                self._loop.call_soon_threadsafe(
                    self._loop.call_later, need.seconds, self._come_back, each
                )
                continue
            assert isinstance(need, InWorker), need
            try:
                working = self._workers.submit(need.function, *need.arguments)
            except RuntimeError as error:
                # For example, no thread could be started.
                each.failure = error
                self._come_back(each)
            else:
                working.add_done_callback(partial(self._end_work, each))

    def _end_work(self, each: Submitted, working: Future[Any]) -> None:
        error = working.exception()
        if error is None:
            each.answer = working.result()
        else:
            each.failure = error
        self._come_back(each)


def answer_calls(calling: Sequence[Submitted]) -> None:
    """Make the chains that these operations need. If the calls cannot even be made, that error is
    raised at the `yield` of each."""
    try:
        outcomes = make_calls([each.need for each in calling])  # type: ignore[misc]
    except BaseException as error:
        for each in calling:
            each.failure = error
    else:
        for each, answer in zip(calling, outcomes, strict=True):
            each.answer = answer


def settle(
    future: asyncio.Future[Any],
    abandoned: Callable[[Any], None] | None,
    result: Any,
    error: BaseException | None,
) -> None:
    if not future.cancelled():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    elif error is None and abandoned is not None:
        abandoned(result)


async def outcome(future: asyncio.Future[T], abandoned: Callable[[T], None] | None) -> T:
    try:
        return await future
    except asyncio.CancelledError:
        is_resolved = future.done() and not future.cancelled()
        if is_resolved and future.exception() is None and abandoned is not None:
            # The cancellation came before the task could run.
            abandoned(future.result())
        raise
