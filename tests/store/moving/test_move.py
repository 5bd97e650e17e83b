"""Moves between queues: faults in the middle, races, and what lasts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.errors import (
    InvalidRequest,
    LeaseMismatch,
    MQError,
    StoreUnavailable,
)
from mq.names import MessageId
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.store.by_id import Guard
from mq.store.moving.move import MovedMessages
from mq.store.receiving.oldest import MOST_FAILURES
from mq.store.store import Store
from tests.support.faults import OldFiles, PlainFiles, WatchedFiles, raising
from tests.support.messages import read_seal
from tests.support.queue_moves import DEAD, MANY, OTHER, TO_DEAD, places, with_dead
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    drain,
    eventually,
    publish,
    receive,
    store_on,
)


async def test_many_share_a_sync(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await with_dead(store)
        for _ in range(30):
            await publish(store, b"body")
        before = files.syncs()

        assert await store.move(TO_DEAD, MANY) == MovedMessages(30, [], [])

        assert files.syncs() - before <= 2


async def test_a_move_is_durable_when_it_is_answered(disk: Path) -> None:
    """Both folders are synced after the rename."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await with_dead(store)
        await publish(store, b"body")
        steps: list[str] = []
        for name in ("sync", "sync_file_system", "rename"):
            files.before[name] = lambda *_, name=name: steps.append(name)

        await store.move(TO_DEAD, MANY)

    renamed = steps.index("rename")
    assert [step for step in steps[renamed:] if step.startswith("sync")]


def fail_at(files: WatchedFiles, call: str, first: int, last: int) -> None:
    """Let calls of that name fail, from the one of number `first` to that of `last`."""
    number = 0

    def before(*_: object) -> None:
        nonlocal number
        number += 1
        if first <= number <= last:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before[call] = before


async def try_to_move(store: Store, message_id: MessageId, is_by_id: bool) -> MQError | None:
    moving = TO_DEAD._replace(reason="because")
    if is_by_id:
        return (await store.move_by_id(moving, [message_id]))[0]
    try:
        await store.move(moving, MANY)
    except MQError as error:
        return error
    return None


@pytest.mark.parametrize("is_by_id", [False, True])
@pytest.mark.parametrize("failing", [("set_attribute", 1), ("set_attribute", 2), ("rename", 1)])
async def test_a_failure_leaves_the_message_as_it_was(
    root: Path, failing: tuple[str, int], is_by_id: bool
) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await with_dead(store)
        message_id = await publish(store, b"body")
        (await receive(store)).close(files)
        await store.release_by_id(ORDERS, message_id)
        path = root / "queues/orders" / message_id
        seal = read_seal(path)
        call, number = failing
        fail_at(files, call, number, number)

        failed = await try_to_move(store, message_id, is_by_id)

        assert isinstance(failed, StoreUnavailable)
        assert read_seal(path) == seal
        assert DEAD_ATTRIBUTE not in os.listxattr(path) or not os.getxattr(path, DEAD_ATTRIBUTE)
        assert await try_to_move(store, message_id, is_by_id) is None
        assert await drain(store, DEAD) == [message_id]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EBADMSG])
async def test_what_is_wrong_with_one_keeps_no_other_from_its_queue(root: Path, code: int) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await with_dead(store)
        first, second = await publish(store, b"1"), await publish(store, b"2")
        left = [raising(code)]
        files.before["rename"] = lambda *_: left.pop()() if left else None

        assert await store.move(TO_DEAD, MANY) == MovedMessages(1, [], [first])

        assert await drain(store) == [first]
        assert await drain(store, DEAD) == [second]


@pytest.mark.parametrize("failing", [1, MOST_FAILURES])
async def test_what_was_moved_before_the_disk_broke_counts(root: Path, failing: int) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await with_dead(store)
        first, *others = [await publish(store, b"body") for _ in range(1 + failing)]
        fail_at(files, "rename", 2, MANY)

        assert (await store.move(TO_DEAD, MANY)).number == 1
        files.before.clear()

        assert (await drain(store, DEAD), await drain(store)) == ([first], others)


async def test_a_failed_sync_is_reported_and_the_move_may_be_tried_again(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await with_dead(store)
        message_id = await publish(store, b"body")
        files.fail("sync", "sync_file_system")

        with pytest.raises(StoreUnavailable):
            await store.move(TO_DEAD, MANY)
        files.before.clear()

        async def is_there() -> bool:
            try:
                await store.move(TO_DEAD, MANY)
                return await drain(store, DEAD) == [message_id]
            except StoreUnavailable:
                return False

        await eventually(is_there)


# Kinds of file systems


async def test_without_rename_flags_a_move_that_was_cut_off_is_finished(root: Path) -> None:
    """Between link and unlink a message has two names."""
    async with store_on(root, OldFiles()) as store:
        await with_dead(store)
        message_id = await publish(store, b"body")
        there, here = root / "queues/orders.dead" / message_id, root / "queues/orders" / message_id
        os.link(here, there)

        [outcome] = await store.move_by_id(TO_DEAD, [message_id])

        assert outcome is None
        assert places(root, message_id) == [f"queues/orders.dead/{message_id}"]


async def test_a_removal_takes_the_names_that_a_cut_off_move_left_in_any_queue(root: Path) -> None:
    async with store_on(root, OldFiles()) as store:
        await store.create_queue(OTHER)
        message_id = await publish(store, b"body")
        os.link(root / "queues/orders" / message_id, root / "queues/other" / message_id)

        await store.remove(OTHER, message_id)

        assert all(path.startswith("remove/") for path in places(root, message_id))


async def test_without_attributes_messages_move_but_keep_no_reason(root: Path) -> None:
    async with store_on(root, PlainFiles()) as store:
        await with_dead(store)
        ready, leased = await publish(store, b"1"), await publish(store, b"2")
        received = await store.take(ORDERS, leased, LONG_SECONDS)
        guard = Guard(frozenset({received.lease}))

        with pytest.raises(InvalidRequest, match="no extended attributes"):
            await store.move(TO_DEAD._replace(reason="because"), MANY)
        [stale] = await store.move_by_id(TO_DEAD, [leased], Guard(frozenset({1})))
        assert isinstance(stale, LeaseMismatch)
        assert await store.move_by_id(TO_DEAD, [leased], guard) == [None]
        assert await store.move(TO_DEAD, MANY) == MovedMessages(1, [], [])

        assert sorted(await drain(store, DEAD)) == sorted([ready, leased])


async def test_a_full_disk_keeps_no_message_from_being_moved(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await with_dead(store)
        await publish(store, b"body")
        for call in ("open_unnamed", "write", "make_folder"):
            files.before[call] = raising(errno.ENOSPC)

        assert await store.move(TO_DEAD, MANY) == MovedMessages(1, [], [])
