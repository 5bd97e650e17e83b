"""A message that is asked for by its id is found wherever others move it during the search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.names import MessageId
from mq.spool.batch_names import new_batch_name
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, seal_of, write_message
from tests.support.stores import LONG_SECONDS, ORDERS, store_on

OWN = MessageId("own")
LOOKS = range(1, 12)


def _left(root: Path, *, in_a_batch: bool) -> Path:
    """A message whose publication was answered, and which did not come to its queue."""
    folder = root / "new"
    if in_a_batch:
        folder /= new_batch_name(ORDERS).sealed
        folder.mkdir()
    return write_message(folder / f"{ORDERS}:{OWN}", b"body", seal=seal_of(b"body"))


def _before(files: WatchedFiles, call: str, number: int, act: Callable[[], object]) -> None:
    """Let `act` happen before the call of that name with that number, from now on."""
    files.calls.clear()

    def hook(*_: object) -> None:
        if files.calls[call] == number:
            del files.before[call]
            act()

    files.before[call] = hook


@pytest.mark.parametrize("number", LOOKS)
@pytest.mark.parametrize("in_a_batch", [False, True])
async def test_what_is_delivered_meanwhile_is_taken(
    root: Path, orders: Path, in_a_batch: bool, number: int
) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        left = _left(root, in_a_batch=in_a_batch)
        _before(files, "status_of", number, lambda: left.rename(orders / OWN))

        taken = await store.take(ORDERS, OWN, LONG_SECONDS)
        taken.close(files)

        assert taken.message_id == OWN


@pytest.mark.parametrize("number", LOOKS)
@pytest.mark.parametrize("in_a_batch", [False, True])
async def test_what_is_delivered_meanwhile_is_removed(
    root: Path, orders: Path, in_a_batch: bool, number: int
) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        left = _left(root, in_a_batch=in_a_batch)
        _before(files, "rename", number, lambda: left.exists() and left.rename(orders / OWN))

        await store.remove(ORDERS, OWN)

        assert names_in(root / "remove") == [f"{ORDERS}:{OWN}"]
