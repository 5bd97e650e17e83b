"""The folders of queues that are held open: the right ones, a bounded number, and none closed under
a call."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import QueueNotFound
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.network_files import NetworkFiles
from mq.spool.open_queues import MAX_OPEN_QUEUES
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.store.queue.expiry import queues_to_expire
from tests.support.descriptors import open_paths
from tests.support.messages import names_in, write_message
from tests.support.stores import LONG_SECONDS, ORDERS, publish, receive, store_on
from tests.support.users import NOBODY


@pytest.fixture
def spool(root: Path) -> Iterator[Spool]:
    with closing(open_root(root, 0o700, Files())[0]) as spool:
        yield spool


def opened_folders(below: Path) -> list[str]:
    """What descriptors of this process lead to below a folder, also where it has gone."""
    return [path for path in open_paths() if path.startswith(f"{below}/")]


@pytest.mark.parametrize(
    ("files", "most"), [(8 * MAX_OPEN_QUEUES + 8, MAX_OPEN_QUEUES), (1024, 128)]
)
def test_a_bounded_number_of_queues_stays_open(
    root: Path, files: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves most of what the process may open for messages and connections. A queue that was
    used a moment ago is not opened again."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    with closing(open_root(root, 0o700, Files())[0]) as spool:
        queues = spool.root / "queues"
        for number in range(most + 20):
            (queues / f"orders{number}").mkdir()
            write_message(queues / f"orders{number}" / "1")

        for number in range(most + 20):
            assert spool.exists(Folder.QUEUES, f"orders{number}/1")

        opened = opened_folders(queues)
        assert most // 2 < len(opened) <= most
        assert str(queues / f"orders{most + 19}") in opened


def test_a_folder_is_not_closed_while_somebody_uses_it(spool: Spool) -> None:
    queue = spool.root / "queues" / "orders"
    queue.mkdir()
    write_message(queue / "1")
    opened = spool.queues.open("orders")

    spool.queues.drop("orders")

    assert os.listdir(opened.fd) == ["1"]
    del opened
    assert opened_folders(queue.parent) == []


def test_a_queue_made_again_is_another_folder(spool: Spool) -> None:
    queue = spool.root / "queues" / "orders"
    queue.mkdir()
    write_message(queue / "1")
    assert spool.exists(Folder.QUEUES, "orders/1")

    queue.rename(spool.root / "remove" / "orders:.gone")
    assert not spool.exists(Folder.QUEUES, "orders/1")
    queue.mkdir()
    write_message(queue / "2")

    assert spool.names_in_queue(ORDERS) == ["2"]
    assert not spool.exists(Folder.QUEUES, "orders/1")


def test_what_is_no_folder_of_ours_is_not_opened(spool: Spool, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_message(elsewhere / "1")
    queues = spool.root / "queues"
    (queues / "link").symlink_to(elsewhere)
    write_message(queues / "file")
    names = ["link", "file"]
    if os.geteuid() == 0:
        (queues / "foreign").mkdir()
        write_message(queues / "foreign" / "1")
        os.chown(queues / "foreign", NOBODY, NOBODY)
        names.append("foreign")

    for name in names:
        assert not spool.exists(Folder.QUEUES, f"{name}/1")
        with pytest.raises(NotADirectoryError):
            spool.names_in_queue(QueueName(name))
        with pytest.raises(NotADirectoryError):
            spool.move(Folder.QUEUES, f"{name}/1", Folder.REMOVE, f"{name}:1")
    assert names_in(elsewhere) == ["1"]


async def test_a_queue_that_is_deleted_is_closed(root: Path) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        await receive(store)
        assert opened_folders(root / "queues") == [str(root / "queues" / "orders")]

        await store.delete_queue(ORDERS)

        assert opened_folders(root / "queues") == opened_folders(root / "remove") == []


async def test_a_queue_that_another_process_deleted_is_closed(root: Path, orders: Path) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        assert (await receive(store)).body == b"body"
        orders.rename(root / "remove" / "orders:.gone")

        with pytest.raises(QueueNotFound):
            await store.receive(ORDERS, LONG_SECONDS)

        assert opened_folders(root / "queues") == opened_folders(root / "remove") == []


async def test_what_other_processes_make_and_delete_does_not_stay_open(root: Path) -> None:
    """A look at the settings of each queue opens its folder."""
    async with store_on(root) as store:
        (root / "queues" / "answers").mkdir()
        queues_to_expire(store._work)
        assert str(root / "queues" / "answers") in opened_folders(root / "queues")
        (root / "queues" / "answers").rmdir()

        queues_to_expire(store._work)

        assert not [each for each in open_paths() if "answers" in each]


class StaleFiles(NetworkFiles):
    """Those of a network that knows nothing of a folder which another host has removed."""

    def lock_shared(self, fd: int) -> bool:
        if not os.fstat(fd).st_nlink:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return super().lock_shared(fd)


async def test_a_queue_that_another_host_has_made_again_is_used_at_once(disk: Path) -> None:
    async with store_on(disk, StaleFiles(disk)) as store:
        await publish(store, b"old")
        shutil.rmtree(disk / "queues" / ORDERS)
        (disk / "queues" / ORDERS).mkdir()

        message_id = await publish(store, b"new")

    assert names_in(disk / "queues" / ORDERS) == [message_id]
