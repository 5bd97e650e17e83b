"""Without rename flags a move is a link and an unlink. Whatever the unlink answers, and whatever
process comes between the two, the message keeps a name, is not delivered from two, and a removal
takes all of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held, hold
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq.store.removing.remove import move_on
from mq.store.store import Store
from tests.support.faults import OldFiles, raising
from tests.support.fsck import sealed
from tests.support.messages import names_in, write_set
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    batch_of,
    draft_of,
    drain,
    eventually,
    publish,
    publish_as,
    receive,
    store_on,
)

DEAD = QueueName("orders.dead")


class LostReplies(OldFiles):
    """A network file system: an unlink is done, its answer is lost, and the repeated request is
    told that there is no such name."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        self.is_losing = False

    def unlink(self, folder_fd: int, name: str) -> None:
        super().unlink(folder_fd, name)
        if self.is_losing:
            self.lost += 1
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def every_name(root: Path) -> list[str]:
    """Return every name of a message."""
    found = (
        path
        for path in root.rglob("*")
        if path.is_file() and path.name != "format" and ".probe" not in path.name
    )
    return sorted(str(path.relative_to(root)) for path in found)


def back_up(root: Path, backup: Path) -> None:
    """Hard links to every message, as `cp -al` makes them."""
    for number, name in enumerate(every_name(root)):
        backup.mkdir(exist_ok=True)
        os.link(root / name, backup / f"{number}")


async def _publish(store: Store, root: Path) -> None:
    await publish(store, b"more")


async def _publish_own(store: Store, root: Path) -> None:
    await publish_as(store, b"more", message_id=MessageId("own"))


async def _publish_batch(store: Store, root: Path) -> None:
    await store.publish_batch(ORDERS, batch_of(draft_of(b"1"), draft_of(b"2"), draft_of(b"3")))


async def _receive(store: Store, root: Path) -> None:
    await store.receive(ORDERS, LONG_SECONDS)


async def _release(store: Store, root: Path) -> None:
    received = await store.receive(ORDERS, LONG_SECONDS)
    if received is not None:
        await store.put_back(received)


USES: list[Callable[[Store, Path], Any]] = [
    _publish,
    _publish_own,
    _publish_batch,
    _receive,
    _release,
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("has_backup", [False, True])
async def test_an_unlink_whose_answer_was_lost_loses_no_message(
    root: Path, tmp_path: Path, use: Callable[[Store, Path], Any], has_backup: bool
) -> None:
    files = LostReplies()
    async with store_on(root, files) as store:
        before = {await publish(store, b"body") for _ in range(3)}
        if has_backup:
            back_up(root, tmp_path / "backup")
        files.is_losing = True
        await use(store, root)
        files.is_losing = False

        names = {name.rpartition("/")[2].rpartition(":")[2] for name in every_name(root)}

        assert files.lost
        assert before <= names
        if use in (_publish, _publish_own, _publish_batch):
            assert len(await drain(store)) == {_publish_batch: 6}.get(use, 4)


@pytest.mark.parametrize("has_backup", [False, True])
async def test_a_removal_whose_answer_was_lost_is_a_removal(
    root: Path, tmp_path: Path, has_backup: bool
) -> None:
    files = LostReplies()
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        if has_backup:
            back_up(root, tmp_path / "backup")
        files.is_losing = True
        await store.remove(ORDERS, message_id)
        files.is_losing = False

        assert every_name(root) == [f"remove/orders:{message_id}"]


@pytest.fixture
def files() -> OldFiles:
    return OldFiles()


def test_two_who_do_the_same_move_leave_one_name(spool: Spool, files: OldFiles, root: Path) -> None:
    """A second server removes the message between the two calls of the first."""
    sealed(root / "queues/orders/1")

    def remove(*_: Any) -> None:
        files.before.clear()
        assert spool.move(Folder.QUEUES, "orders/1", Folder.REMOVE, "orders:1")

    files.before["unlink"] = remove

    assert spool.move(Folder.QUEUES, "orders/1", Folder.REMOVE, "orders:1")
    assert every_name(root) == ["remove/orders:1"]


async def test_a_removal_between_the_calls_of_a_receive_takes_both_names(root: Path) -> None:
    files = OldFiles()
    async with store_on(root, files) as store, store_on(root, OldFiles()) as other:
        message_id = await publish(store, b"body")
        spool = other._work.spool
        taken: list[Any] = []

        def remove(*_: Any) -> None:
            files.before.clear()
            flat = f"orders:{message_id}"
            taken.append(spool.move(Folder.QUEUES, f"orders/{message_id}", Folder.REMOVE, flat))

        files.before["unlink"] = remove
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        assert taken == [True]
        await other.remove(ORDERS, message_id)

        assert every_name(root) == [f"remove/orders:{message_id}"]


async def test_a_removal_while_a_batch_is_delivered_takes_both_names(root: Path) -> None:
    files, own = OldFiles(), MessageId("own")
    async with store_on(root, files) as store, store_on(root, OldFiles()) as other:

        def remove(*_: Any) -> None:
            if (root / "queues/orders/own").exists():
                files.before.clear()
                assert move_on(other._work, ORDERS, own, errno.ENOENT) is Folder.NEW

        files.before["unlink"] = remove
        await store.publish_batch(ORDERS, batch_of(draft_of(b"1", own), draft_of(b"2")))

        assert not files.before
        assert [name for name in every_name(root) if own in name] == ["remove/orders:own"]


# Unlinks that fail


def fail_unlinks(files: OldFiles, code: int) -> None:
    files.before["unlink"] = raising(code)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("is_batch", [False, True])
async def test_what_was_delivered_under_two_names_and_taken_is_not_delivered_again(
    root: Path, code: int, is_batch: bool
) -> None:
    files = OldFiles()
    async with store_on(root, files) as store:
        sweeper = Sweeper(store._work.spool, lambda *_: None)
        if is_batch:
            write_set(root / "new/.orders:00000000-0000-0000-0000-000000000000", "1", "2", "3")
        else:
            for name in "123":
                sealed(root / f"new/orders:{name}")
        fail_unlinks(files, code)
        sweeper.sweep()
        del files.before["unlink"]
        assert sorted(names_in(root / "queues/orders")) == ["1", "2", "3"]

        first = await receive(store)
        second = await receive(store)
        await store.remove(ORDERS, second.message_id)
        (root / f"remove/orders:{second.message_id}").unlink()  # the reaper came by
        sweeper.sweep()

        assert os.listdir(root / "new") == []
        third = await receive(store)
        assert {each.message_id for each in (first, second, third)} == {"1", "2", "3"}
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        assert names_in(root / "queues/orders") == []


async def test_a_backup_of_what_waits_in_new_keeps_nothing_there(
    root: Path, tmp_path: Path
) -> None:
    """Its names are not places of MQ."""
    async with store_on(root, OldFiles()) as store:
        write_set(root / "new/.orders:00000000-0000-0000-0000-000000000000", "1", "2")
        sealed(root / "new/orders:3")
        back_up(root, tmp_path / "backup")
        (root / "backup").mkdir()
        os.link(root / "new/orders:3", root / "backup/orders:3")

        Sweeper(store._work.spool, lambda *_: None).sweep()

        assert sorted(await drain(store)) == ["1", "2", "3"]


async def test_a_dead_letter_under_two_names_is_removed_with_both(root: Path) -> None:
    files = OldFiles()
    async with store_on(root, files, max_receives=1) as store:
        await publish(store, b"body")
        received = await receive(store)
        fail_unlinks(files, errno.EIO)
        with pytest.raises(Exception, match="cannot do this now"):
            await store.release_by_id(ORDERS, received.message_id)
        del files.before["unlink"]
        assert len(every_name(root)) == 2

        async def is_listed() -> bool:
            return (await store.describe_queue(DEAD)).ready == 1

        await eventually(is_listed)
        await store.remove(DEAD, received.message_id)

        assert every_name(root) == [f"remove/orders.dead:{received.message_id}"]


def test_a_held_message_is_the_same_by_both_names(spool: Spool, root: Path) -> None:
    """So a process that moves it by one name excludes one that would move it by the other."""
    sealed(root / "queues/orders/1")
    os.link(root / "queues/orders/1", root / "delay/orders:1")
    held = hold(spool.files, spool.fd(Folder.DELAY), "orders:1")
    assert isinstance(held, Held)

    with held:
        assert not isinstance(hold(spool.files, spool.fd(Folder.QUEUES), "orders/1"), Held)
