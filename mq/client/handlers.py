"""Checks of handlers: a mistake here would acknowledge messages that were not handled."""

from __future__ import annotations

import functools
import inspect


def require_plain(handle: object) -> None:
    """Raise TypeError for a handler that does nothing yet when it is called."""
    called = _called(handle)
    if inspect.iscoroutinefunction(called):
        raise TypeError(
            "handle: a coroutine function is for AsyncClient; Client takes a plain function"
        )
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise TypeError("handle: a generator function does nothing until it is iterated")


def require_awaitable(handle: object) -> None:
    """Raise TypeError for a handler that surely returns nothing that can be awaited. Of a plain
    function the first result shows that: a decorator may have made it, and return a coroutine."""
    called = _called(handle)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise TypeError("handle: AsyncClient takes a coroutine function; write async def")


def is_undone(result: object) -> bool:
    """Return whether a plain function returned something that has not run yet, such as a lambda
    around a coroutine function."""
    return inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)


def wrong_result(result: object) -> TypeError:
    """Return the error for a handler that only its result gave away."""
    if inspect.iscoroutine(result):
        result.close()
    return TypeError(
        f"handle returned {type(result).__name__}: Client takes a plain function, AsyncClient a "
        "coroutine function"
    )


def _called(handle: object) -> object:
    """Return the function behind a handler. Raises TypeError if there is none."""
    if not callable(handle):
        raise TypeError(f"handle: {handle!r} cannot be called")
    while isinstance(handle, functools.partial):
        handle = handle.func
    if inspect.isroutine(handle) or inspect.isclass(handle):
        return handle
    return type(handle).__call__ if not inspect.iscoroutinefunction(handle) else handle
