"""Runs operations from one need to the next. What they wait for is done elsewhere, except the
barrier, which is up to the committer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from mq.commit.barrier import Unsynced
from mq.commit.operation import (
    SETTLED,
    Apart,
    InWorker,
    Operation,
    Pause,
    Shared,
    Submitted,
    Together,
)
from mq.disk.file_work import FileCalls, make_calls
from mq.errors import StoreUnavailable


class Engine:
    """The operations of one committer that are under way: `away` is how many wait for something
    other than a barrier. `come_back` is called with each whose wait is over, on any thread; it goes
    on after `take_back`, when it is advanced again."""

    def __init__(self, workers: Executor, come_back: Callable[[Submitted], None]) -> None:
        self._workers = workers
        self._come_back = come_back
        self._loop = asyncio.get_running_loop()
        self.away = 0
        self.failed_barriers = 0
        self.why_failed = ""
        self._leaving: list[Submitted] = []
        self._ready: list[Submitted] = []
        self._ended: list[Submitted] = []
        self._shared: dict[str, list[Submitted]] = {}

    def advance(self, ready: list[Submitted]) -> list[Submitted]:
        """Run each operation until it must wait, and return those that need a barrier. Of the
        others, `take_ended` returns those that are over, and `send_away` sees to the rest.
        Operations that can go on because of these are appended to `ready`. File calls that several
        ask for are made together."""
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
        """Run a single operation until it must wait. Returns those that can go on because of it,
        and appends it to `unsynced` if it needs a barrier."""
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

    def let_wait(self, each: Submitted) -> list[Submitted]:
        """Let an operation that was advanced elsewhere wait for what it needs. Returns those that
        can go on because of it."""
        ready: list[Submitted] = []
        self._ready = ready
        self._wait(each)
        return ready

    def _end(self, each: Submitted) -> None:
        each.is_over = True
        if each.then is None:
            self._ended.append(each)
        else:
            each.then(each)

    def _wait(self, each: Submitted) -> None:
        need = each.need
        self.away += 1
        each.failed_barriers = self.failed_barriers
        if isinstance(need, Together):
            self._run_parts(each, need.operations)
        elif isinstance(need, Shared):
            self._join(each, need)
        elif isinstance(need, Apart):
            self._ready += need.submitted
            self._go_on(each)
        else:
            self._leaving.append(each)

    def _go_on(self, each: Submitted) -> None:
        """Go on with an operation that has waited for others, which are over now."""
        self.take_back(each)
        if not each.is_over:
            self._ready.append(each)

    def take_back(self, each: Submitted) -> None:
        """Note that the wait of an operation is over. If a barrier failed meanwhile, it is refused
        at its `yield`, like those at that barrier."""
        self.away -= 1
        if each.failed_barriers != self.failed_barriers:
            each.failure = StoreUnavailable(self.why_failed)

    def note_failed_barrier(self, why: str) -> None:
        self.failed_barriers += 1
        self.why_failed = why

    def take_ended(self) -> list[Submitted]:
        """Return the operations that are over, whose callers are to be told."""
        ended, self._ended = self._ended, []
        return ended

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

    def send_away(self) -> None:
        """Start the pauses and the work that operations wait for. They hold no queue by now."""
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
                # The workers take no more: the server stops.
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
