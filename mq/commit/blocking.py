"""Operations without an event loop: one at a time, with a barrier each time an operation asks for
it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mq.commit.barrier import Barrier, Unsynced
from mq.commit.operation import (
    Apart,
    InWorker,
    Need,
    Operation,
    Pause,
    Settled,
    Shared,
    Submitted,
    Together,
    tell_each,
    unavailable,
)
from mq.disk.file_work import FileCalls, make_calls
from mq.errors import StoreUnavailable

T = TypeVar("T")


class BlockingCommitter:
    """Runs operations on the calling thread. Without a `barrier` nothing is synced. There are no
    workers and no operations to share with: what one needs is done before it goes on."""

    def __init__(
        self,
        barrier: Barrier | None = None,
        begin_round: Callable[[], None] = lambda: None,
        end_calls: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._barrier = barrier
        self._begin_round = begin_round
        self._end_calls = end_calls
        self._sleep = sleep

    def close(self) -> None:
        if self._barrier is not None:
            self._barrier.close()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function where operations run. Raises what it raises, or StoreUnavailable."""
        self._begin_round()
        try:
            return function(*arguments)
        except OSError as error:
            raise unavailable(error) from error
        finally:
            self._end_calls()

    def run(self, operation: Operation[T]) -> T:
        """Run an operation and make it durable. Raises what it raises, or StoreUnavailable."""
        result: T = self.call(self._drive, operation)
        return result

    def _drive(self, operation: Operation[Any]) -> Any:
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                need = operation.send(answer) if failure is None else operation.throw(failure)
            except StopIteration as stop:
                return stop.value
            answer = failure = None
            try:
                answer = self._answer(need)
            except Exception as error:
                failure = error

    def _answer(self, need: Need) -> Any:
        match need:
            case FileCalls():
                (outcome,) = make_calls([need])
                return outcome
            case Settled():
                return None
            case Unsynced():
                self._end_calls()
                self._make_durable(need)
                return None
        self._end_calls()
        answer: Any = None
        match need:
            case InWorker():
                answer = need.function(*need.arguments)
            case Pause(seconds):
                answer = self._sleep(seconds)
            case Shared():
                answer = self.run(need.make())
            case Together(operations):
                answer = [self._outcome(each) for each in operations]
            case Apart(submitted):
                self._run_apart(submitted)
        self._begin_round()
        return answer

    def _make_durable(self, unsynced: Unsynced) -> None:
        if self._barrier is None:
            return
        try:
            self._barrier.make_durable([unsynced])
        except OSError as error:
            raise StoreUnavailable(
                f"the root could not be synced ({error.strerror}); the outcome is unknown; "
                "try again"
            ) from error

    def _run_apart(self, submitted: Sequence[Submitted]) -> None:
        for each in submitted:
            try:
                each.result = self.run(each.operation)
            except Exception as error:
                each.error = error
        tell_each(submitted)

    def _outcome(self, operation: Operation[Any]) -> Any:
        try:
            return self.run(operation)
        except Exception as error:
            return error
