"""What a worker takes for a handler."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from mq.client import AsyncClient, Client

URL = "http://localhost"


def plain(message: object) -> None: ...


async def coroutine(message: object) -> None: ...


def generator(message: object) -> Iterator[object]:
    yield message


async def asynchronous_generator(message: object) -> AsyncIterator[object]:
    yield message


def either(message: object) -> object:
    return coroutine(message) if message else None


def value(message: object) -> int:
    return 1


class Plain:
    def __call__(self, message: object) -> None: ...

    def method(self, message: object) -> None: ...


class Coroutine:
    async def __call__(self, message: object) -> None: ...

    async def method(self, message: object) -> None: ...


def logged(handle: Callable[[object], object]) -> Callable[[object], object]:
    """A decorator as people write them."""

    @functools.wraps(handle)
    def called(message: object) -> object:
        return handle(message)

    return called


def run(handle: Callable[[object], Any]) -> Callable[[object], object]:
    """Another one."""

    @functools.wraps(handle)
    def called(message: object) -> None:
        asyncio.run(handle(message))

    return called


def two(handle: object, message: object) -> None: ...


async def two_asynchronous(handle: object, message: object) -> None: ...


PLAIN: list[Any] = [
    plain, Plain(), Plain().method, functools.partial(two, 1), print, [].append, value,
    lambda message: None, run(coroutine), logged(plain),
]  # fmt: skip
ASYNCHRONOUS: list[Any] = [
    coroutine, Coroutine(), Coroutine().method, functools.partial(two_asynchronous, 1),
    functools.partial(functools.partial(two_asynchronous), 1),
]  # fmt: skip
UNKNOWN: list[Any] = [logged(coroutine), lambda message: two_asynchronous(1, message), either]
"""What they do shows when they are called."""
NEITHER: list[Any] = [None, 1, "handle", object(), generator, asynchronous_generator]


def work_blocking(handle: Any) -> object:
    return Client(URL).queue("orders").worker(handle)


def work_asynchronous(handle: Any) -> object:
    return AsyncClient(URL).queue("orders").worker(handle)


@pytest.mark.parametrize("handle", PLAIN + UNKNOWN)
def test_a_blocking_worker_takes_what_may_be_a_plain_function(handle: object) -> None:
    assert work_blocking(handle)


@pytest.mark.parametrize("handle", ASYNCHRONOUS + NEITHER)
def test_a_blocking_worker_refuses_what_would_handle_nothing(handle: object) -> None:
    with pytest.raises(TypeError, match="handle"):
        work_blocking(handle)


@pytest.mark.parametrize("handle", ASYNCHRONOUS + UNKNOWN)
def test_an_asynchronous_worker_takes_what_may_be_awaited(handle: object) -> None:
    assert work_asynchronous(handle)


@pytest.mark.parametrize("handle", NEITHER)
def test_an_asynchronous_worker_refuses_what_surely_cannot_be_awaited(handle: object) -> None:
    with pytest.raises(TypeError, match="handle"):
        work_asynchronous(handle)
