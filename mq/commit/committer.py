"""What the store asks of a committer, whatever file system its root is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mq.commit.operation import Operation, Submitted
from mq.metrics.histogram import CommitStats

T = TypeVar("T")


class Committer(Protocol):
    """Runs operations, one at a time between their `yield`s. A caller learns of the end only once
    what the operation did is durable. Used from the event loop alone."""

    stats: CommitStats

    @property
    def failure(self) -> str | None:
        """Why everything is refused now; usually None."""

    def is_alive(self) -> bool:
        """Whether the committer works. If a defect has ended it, only a restart helps."""

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        """Run an operation and make it durable. Raises what it raises, or StoreUnavailable.

        If the caller is cancelled meanwhile, the operation still runs; its result then goes to
        `abandoned`.
        """

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a plain function where operations run. Raises what it raises, or
        StoreUnavailable."""

    def submit(self, submitted: Submitted) -> None:
        """Run an operation as `run` does, for a caller that does not wait. Its `done` is called on
        the event loop, never from within this call, with the result or with what `run` would raise.
        """

    def submit_later(self, submit: Callable[[], None]) -> None:
        """Note that one more request waits for the operation that `submit` will submit. `submit` is
        called once for all such requests, on the event loop, just before their round begins: until
        then more can come and share the operation."""

    async def close(self) -> None:
        """Finish what is under way and stop. Nothing runs after that."""
