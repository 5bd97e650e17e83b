"""Several operations of one request under one barrier."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar, cast

from mq.barrier import Unsynced
from mq.errors import MQError, StoreUnavailable
from mq.operation import Operation, unavailable

T = TypeVar("T")


def together(operations: Sequence[Operation[T]]) -> Operation[list[T | MQError]]:
    """Operations of one `yield` each, under one barrier. What is wrong with one is its result; if
    the barrier fails they all do."""
    results: list[T | MQError | None] = [None] * len(operations)
    waiting: list[tuple[int, Operation[T], Unsynced]] = []
    for number, operation in enumerate(operations):
        try:
            waiting.append((number, operation, next(operation)))
        except StopIteration as stop:
            results[number] = stop.value
        except MQError as error:
            results[number] = error
        except OSError as error:
            results[number] = unavailable(error)
    files = tuple(fd for _, _, unsynced in waiting for fd in unsynced.files)
    folders = {folder for _, _, unsynced in waiting for folder in unsynced.folders}
    try:
        if waiting:
            yield Unsynced(files, tuple(folders))
    except StoreUnavailable as failure:
        for _, operation, _ in waiting:
            with suppress(StoreUnavailable):
                operation.throw(failure)
        raise
    for number, operation, _ in waiting:
        try:
            next(operation)
        except StopIteration as stop:
            results[number] = stop.value
    return cast(list[T | MQError], results)
