"""What the store asks of a committer, whatever its root lies on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mq.commit.operation import Operation, Submitted
from mq.metrics.histogram import CommitStats

T = TypeVar("T")


class Committer(Protocol):
    """Drives operations: one at a time between their `yield`s, and told to be over only once what
    they did is durable. Used from the event loop alone."""

    stats: CommitStats

    @property
    def failure(self) -> str | None:
        """Why everything is refused now; None as a rule."""

    def is_alive(self) -> bool:
        """False once a defect ended it: only a restart helps."""

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        """Run an operation and make it durable. Raises what it raises, or StoreUnavailable.

        If the caller is cancelled meanwhile the operation still runs; its result then goes to
        `abandoned`.
        """

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that needs nothing where operations run. Raises what it raises, or
        StoreUnavailable."""

    def submit(self, submitted: Submitted) -> None:
        """As `run`, for a caller that does not wait: its `done` is called on the event loop, never
        from within this call, with the result, or with what `run` would raise."""

    async def close(self) -> None:
        """Finish what is under way and stop. Nothing may be run afterwards."""
