"""What is done to the folders as one step, and whoever waits for it.

An operation is a generator. What stands before its `yield` are its file calls, in the order that a
crash may cut; it yields what those calls left unsynced; what stands after runs once that is on
stable media (`mq.commit`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from mq.barrier import Unsynced
from mq.errors import StoreUnavailable

T = TypeVar("T")

Operation = Generator[Unsynced, None, T]


class Waiting:
    """An operation on its way, and whoever waits for it."""

    __slots__ = ("abandoned", "error", "future", "operation", "result", "unsynced")

    def __init__(self, operation: Operation[Any], future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.unsynced: Unsynced | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.abandoned: Callable[[Any], None] | None = None

    def advance(self, failure: str | None = None) -> None:
        """Run to the next `yield` or to the end; with `failure`, raise that at the `yield`."""
        self.unsynced = None
        try:
            if failure is None:
                self.unsynced = next(self.operation)
            else:
                self.unsynced = self.operation.throw(StoreUnavailable(failure))
        except StopIteration as stop:
            self.result = stop.value
        except OSError as error:
            self.error = unavailable(error)
        except BaseException as error:
            self.error = error

    def resolve(self) -> None:
        """On the event loop."""
        if self.future.cancelled():
            self.hand_over()
        elif self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)

    def hand_over(self) -> None:
        """Give the result, which nobody waits for any more, to `abandoned`."""
        if self.error is None and self.abandoned is not None:
            self.abandoned(self.result)


def unavailable(error: OSError) -> StoreUnavailable:
    """What a client is told of a failed file call."""
    return StoreUnavailable(f"the store cannot do this now: {error.strerror or error}; try again")
