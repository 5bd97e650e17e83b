"""Checks of handlers: a mistake here would acknowledge messages that were not handled."""

from __future__ import annotations

import dis
import functools
import inspect
from itertools import pairwise


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
    """Raise TypeError for a handler that surely returns nothing that can be awaited."""
    called = _called(handle)
    if inspect.iscoroutinefunction(called):
        return
    is_generator = inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)
    if is_generator or _returns_nothing(called):
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


def _returns_nothing(function: object) -> bool:
    """Return whether no `return` in the function's code has a value. The plain function of a
    decorator, which returns the coroutine of another one, has a value."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    for before, step in pairwise(dis.get_instructions(code)):
        is_none = before.opname == "LOAD_CONST" and before.argval is None
        if step.opname == "RETURN_VALUE" and (step.is_jump_target or not is_none):
            return False
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return False
    return True
