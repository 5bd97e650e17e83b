"""Operations whose caller waits for a future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mq.commit.committer import Committer
from mq.commit.operation import Called, Operation, Submitted

T = TypeVar("T")


async def run(
    committer: Committer, operation: Operation[T], abandoned: Callable[[T], None] | None
) -> T:
    """Run an operation, as `Committer.run` does."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    committer.submit(Submitted(operation, partial(settle, future, abandoned)))
    return await outcome(future, abandoned)


async def call(committer: Committer, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function, as `Committer.call` does."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    committer.submit(Called(function, arguments, partial(settle, future, None)))
    return await outcome(future, None)


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
