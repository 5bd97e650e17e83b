"""A queue whose folder another user has, restored by root for example, which the file system cannot
read, or which is on another one: the others go on."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.ctl.ways.inspect import count_queues
from mq.disk.files import Files
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Actor
from mq.names import QueueName
from mq.spool.root import visit_root
from tests.support.fsck import Fsck
from tests.support.messages import names_in
from tests.support.stores import ORDERS, publish, receive, store_on
from tests.support.users import needs_root

RETURNS = QueueName("returns")


class ShutFiles(Files):
    """Files of a user whom one folder shuts out, as root would not be."""

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        if name == RETURNS:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return super().open_folder(folder_fd, name)


class BrokenFiles(Files):
    """Files of a file system that found one folder damaged."""

    code = errno.EIO

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        if name == RETURNS:
            raise OSError(self.code, os.strerror(self.code), name)
        return super().open_folder(folder_fd, name)


@pytest.fixture(params=[errno.EIO, errno.EBADMSG, errno.EUCLEAN])
def broken(request: pytest.FixtureRequest) -> BrokenFiles:
    files = BrokenFiles()
    files.code = request.param
    return files


@pytest.fixture(autouse=True)
async def shut(root: Path) -> None:
    async with store_on(root) as store:
        await store.create_queue(RETURNS)


async def test_a_server_starts_and_names_it(root: Path) -> None:
    with capture_logs() as logs:
        async with store_on(root, ShutFiles()) as store:
            await publish(store, b"body")
            await receive(store)

    left = [each for each in logs if each["event"] == "file left where it is"]
    (why,) = [each["why"] for each in left if each["name"] == f"queues/{RETURNS}"]
    assert re.fullmatch(
        r"queues/returns belongs to user \d+ and has mode 0700, which shuts user \d+ out: "
        "chown or chmod it", why
    )  # fmt: skip


async def test_the_others_are_counted(root: Path) -> None:
    async with store_on(root, ShutFiles()) as store:
        await publish(store, b"body")

        survey = await store.health.survey()

    assert {queue: found.ready for queue, found in survey.queues.items()} == {ORDERS: 1}


async def test_a_request_for_it_is_told_who_is_shut_out(root: Path) -> None:
    async with store_on(root, ShutFiles()) as store:
        for answer in (publish(store, b"body", RETURNS), receive(store, RETURNS)):
            with pytest.raises(StoreUnavailable, match="has mode 0700, which shuts user"):
                await answer


def test_mqctl_lists_the_others(root: Path) -> None:
    with closing(visit_root(root, ShutFiles(), Actor.SERVER)) as spool:
        left: list[str] = []
        spool.report_left = lambda name, why: left.append(f"{name}: {why}")

        counted = count_queues(spool)

    assert [each.queue for each in counted] == [ORDERS]
    assert left[0].startswith("queues/returns: queues/returns belongs to user")


async def test_beside_one_that_cannot_be_read_a_server_starts_and_counts_the_others(
    root: Path, broken: BrokenFiles
) -> None:
    with capture_logs() as logs:
        async with store_on(root, broken) as store:
            await publish(store, b"body")
            survey = await store.health.survey()
            with pytest.raises(StoreUnavailable):
                await publish(store, b"body", RETURNS)

    assert {queue: found.ready for queue, found in survey.queues.items()} == {ORDERS: 1}
    assert ("file left where it is", f"queues/{RETURNS}", os.strerror(broken.code)) in [
        (each["event"], each.get("name"), each.get("why")) for each in logs
    ]


def test_beside_one_that_cannot_be_read_mqctl_lists_the_others(
    root: Path, broken: BrokenFiles
) -> None:
    with closing(visit_root(root, broken, Actor.SERVER)) as spool:
        left: list[str] = []
        spool.report_left = lambda name, why: left.append(f"{name}: {why}")

        counted = count_queues(spool)

    assert [each.queue for each in counted] == [ORDERS]
    assert left == [f"queues/{RETURNS}: {os.strerror(broken.code)}"]


@pytest.fixture
def mounted(root: Path, shut: None) -> Iterator[Path]:
    """Another file system is mounted on the folder of the queue."""
    folder = root / "queues" / RETURNS
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@needs_root
async def test_nothing_is_published_to_one_to_which_no_message_can_be_moved(
    root: Path, mounted: Path
) -> None:
    with capture_logs() as logs:
        async with store_on(root) as store:
            for request in (publish(store, b"body", RETURNS), receive(store, RETURNS)):
                with pytest.raises(QueueNotFound):
                    await request
            with pytest.raises(StoreUnavailable, match="is not a queue of this server"):
                await store.create_queue(RETURNS)
            await publish(store, b"body")
            await receive(store)

    assert names_in(root / "new") == names_in(mounted) == []
    (why,) = {each["why"] for each in logs if each.get("name") == f"queues/{RETURNS}"}
    assert "on another file system" in why


@needs_root
def test_fsck_names_one_that_is_mounted(root: Path, mounted: Path) -> None:
    with closing(visit_root(root, Files(), Actor.SERVER)) as spool:
        found = Fsck(spool).report()
        mended = Fsck(spool).mend()

    for (finding,) in (found, mended):
        assert (finding.kind, finding.path) == ("foreign", f"queues/{RETURNS}")
        assert finding.repair is None
        assert "unmount it" in finding.detail
