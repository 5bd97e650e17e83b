"""A damaged message costs that message alone."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from mq.store.moving.move import MovedMessages, Moving
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import LONG_SECONDS, ORDERS, body_of, drain, publish, receive, store_on
from tests.support.users import needs_root

SIZES = pytest.mark.parametrize("size", [100, 200_000, 600_000])


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@SIZES
async def test_damaged_message_costs_that_message_alone(
    root: Path, store: Store, orders: Path, size: int
) -> None:
    bodies = [os.urandom(size) for _ in range(4)]
    torn, changed, whole, last = [await publish(store, body) for body in bodies]
    os.truncate(orders / torn, size - 1)
    with (orders / changed).open("r+b") as file:
        file.write(b"\0\0\0\0")

    received = await receive(store)

    assert (received.message_id, await body_of(store, received)) == (whole, bodies[2])
    assert await drain(store) == [last]
    assert names_in(root / "corrupt") == [f"orders:{torn}", f"orders:{changed}"]


async def test_a_file_without_a_seal_that_takes_too_long_to_read_is_set_aside(
    root: Path, store: Store, orders: Path
) -> None:
    with (orders / "0-of-a-tib").open("wb") as file:
        file.truncate(1 << 40)
    message_id = await publish(store, b"body")

    assert await drain(store) == [message_id]

    assert names_in(root / "corrupt") == ["orders:0-of-a-tib"]


async def test_a_file_of_a_tib_whose_seal_is_wrong_is_set_aside(
    root: Path, store: Store, orders: Path
) -> None:
    path = orders / "0-of-a-tib"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    os.setxattr(path, SEAL_ATTRIBUTE, Seal(1 << 40, 1, 0, 0, 0).pack())
    message_id = await publish(store, b"body")

    assert await drain(store) == [message_id]

    assert names_in(root / "corrupt") == ["orders:0-of-a-tib"]


async def test_message_that_cannot_be_read_is_set_aside(
    root: Path, store: Store, files: WatchedFiles
) -> None:
    unreadable, whole = [await publish(store, b"body") for _ in range(2)]
    files.fail("read", code=errno.EIO, times=2)

    assert await drain(store) == [whole]

    assert names_in(root / "corrupt") == [f"orders:{unreadable}"]


@contextmanager
def _mounted(source: Path, on: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", source, on], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", on], check=True)


@needs_root
async def test_a_message_that_something_is_mounted_on_costs_that_message_alone(
    root: Path, store: Store, orders: Path
) -> None:
    first, second = [await publish(store, body) for body in (b"first", b"second")]
    other = root.with_name("other")
    other.write_bytes(b"other")

    with _mounted(other, orders / first):
        assert (await receive(store)).message_id == second


async def test_stale_handle_is_no_damage(root: Path, store: Store, files: WatchedFiles) -> None:
    message_id = await publish(store, b"body")
    files.fail("read", code=errno.ESTALE)

    with pytest.raises(StoreUnavailable):
        await store.receive(ORDERS, LONG_SECONDS)

    assert await drain(store) == [message_id]


async def test_message_that_may_not_be_opened_keeps_no_other_from_being_received(
    store: Store, files: WatchedFiles
) -> None:
    locked, free = [await publish(store, b"body") for _ in range(2)]

    def refuse(_: int, name: str) -> None:
        if name.endswith(locked):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    files.before["open_message"] = refuse

    assert (await receive(store)).message_id == free


async def test_damaged_message_is_set_aside_though_corrupt_was_removed(
    root: Path, orders: Path
) -> None:
    async with store_on(root) as store:
        for number in range(2):
            message_id = await publish(store, b"body")
            (orders / message_id).write_bytes(b"damaged")

            assert await store.receive(ORDERS, LONG_SECONDS) is None

            assert names_in(root / "corrupt") == [f"orders:{message_id}"]
            assert names_in(orders) == []
            (root / "corrupt").rename(root / f"kept-{number}")


@pytest.mark.parametrize("is_link", [True, False])
async def test_a_damaged_message_stops_no_queue_where_corrupt_is_no_folder(
    root: Path, orders: Path, tmp_path: Path, is_link: bool
) -> None:
    async with store_on(root) as store:
        if is_link:
            (root / "corrupt").symlink_to(tmp_path)
        else:
            (root / "corrupt").write_text("a person's")
        before = names_in(tmp_path)
        damaged, whole = await publish(store, b"body"), await publish(store, b"body")
        (orders / damaged).write_bytes(b"damaged")

        assert (await receive(store)).message_id == whole
        assert names_in(orders) == [damaged]
        assert names_in(tmp_path) == before


async def test_a_message_that_the_disk_does_not_open_keeps_no_other_from_its_receiver(
    store: Store, files: WatchedFiles
) -> None:
    unreadable, whole = [await publish(store, b"body") for _ in range(2)]

    def refuse(_: int, name: str) -> None:
        if name == unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before["open_message"] = refuse
    assert (await receive(store)).message_id == whole
    with pytest.raises(StoreUnavailable):
        await store.receive(ORDERS, LONG_SECONDS)
    del files.before["open_message"]

    assert await drain(store) == [unreadable]


async def test_a_message_that_the_disk_does_not_open_keeps_no_other_from_being_moved(
    store: Store, files: WatchedFiles
) -> None:
    target = QueueName("target")
    await store.create_queue(target)
    unreadable, *whole = [await publish(store, b"body") for _ in range(3)]

    def refuse(_: int, name: str) -> None:
        if name == unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before["open_message"] = refuse
    moved = await store.move(Moving(ORDERS, target), 10)
    assert moved == MovedMessages(len(whole), [], [unreadable])
    with pytest.raises(StoreUnavailable):
        await store.move(Moving(ORDERS, target), 10)
    del files.before["open_message"]

    assert await store.move(Moving(ORDERS, target), 10) == MovedMessages(1, [], [])


@pytest.mark.parametrize("limit", [1, 5])
async def test_a_first_receive_that_the_disk_refuses_leaves_the_message_in_reach(
    root: Path, orders: Path, limit: int
) -> None:
    """Before the first seal that says when it was received, the format is written again. Nothing
    makes the server list the folder again."""
    async with store_on(root) as store:
        await store.call(lambda work: work.spool.use_long_seals())
        message_id = await publish(store, b"body")
    os.utime(orders, (0, 0))
    files = WatchedFiles()
    async with store_on(root, files) as store:
        files.fail("write")
        with pytest.raises(StoreUnavailable):
            await store.receive_many(ORDERS, limit, LONG_SECONDS)

        assert await drain(store) == [message_id]
