"""One process has all FIFO queues of a root."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.disk.byte_locks import unlock_bytes
from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.spool.network_files import NetworkFiles
from mq.spool.root_format import LONG_SEALS, write_format
from mq_sqs.fifo.ownership import _OFFSET as OFFSET
from tests.support.descriptors import count_open
from tests.support.fifo import LINE, bodies_of, fifo_on
from tests.support.stores import ORDERS, publish, receive


async def test_a_second_gateway_refuses_fifo_queues_until_the_first_is_gone(root: Path) -> None:
    async with fifo_on(root) as second:
        async with fifo_on(root) as first:
            await first.send_all(("1", "a"), ("2", "a"))
            [taken] = await first.receive()

            for attempt in (
                lambda: second.send("3"),
                second.receive,
                lambda: second.receive(wait=30),
                lambda: second.remove(taken),
                lambda: second.show(taken),
                lambda: second.remove_many([taken.message_id], frozenset({1})),
                lambda: second.service.require(LINE),
            ):
                with pytest.raises(StoreUnavailable, match="another mq-sqs has the FIFO queues"):
                    await attempt()
        await second.send("1")

        assert await second.bodies() == []
        await second.remove(taken)
        assert await second.bodies() == ["2"]


async def test_a_format_file_that_was_written_again_has_one_owner(root: Path) -> None:
    """`mqctl fsck --repair` writes one that is missing."""
    async with fifo_on(root) as first, fifo_on(root) as second:
        await first.send("1")
        (root / "format").unlink()
        with pytest.raises(StoreUnavailable):
            await second.send("2")
        await first.send("2")
        write_format(root, Files(), LONG_SEALS)

        assert (await second.send("2")).is_duplicate

        with pytest.raises(StoreUnavailable, match="another mq-sqs has the FIFO queues"):
            await first.send("3")
        second.service.close()
        await first.send("3")
        assert await first.bodies() == ["1", "2", "3"]


async def test_a_host_that_was_cut_off_has_lost_them_to_another(root: Path) -> None:
    """The file server ended its lock meanwhile."""
    async with fifo_on(root, NetworkFiles(root)) as first:
        async with fifo_on(root, NetworkFiles(root)) as second:
            await first.send("1")
            fd = first.service._queues._ownership._fd
            assert fd is not None
            unlock_bytes(fd)
            await second.send("2")

            with pytest.raises(StoreUnavailable, match="another mq-sqs has the FIFO queues"):
                await first.send("3")
        await first.send("3")
        assert await first.bodies() == ["1", "2", "3"]


async def test_a_host_that_was_cut_off_knows_what_another_has_done_and_gone(root: Path) -> None:
    """The file server ended its lock, and another host had the FIFO queues for a while."""
    async with fifo_on(root, NetworkFiles(root)) as first:
        await first.send_all(("1", "a"), ("2", "a"))
        fd = first.service._queues._ownership._fd
        assert fd is not None
        unlock_bytes(fd)
        async with fifo_on(root, NetworkFiles(root)) as second:
            assert await second.bodies(1) == ["1"]
            await second.send("3")

        assert (await first.send("3")).is_duplicate
        assert await first.bodies() == []


async def test_standard_queues_are_everybodys(root: Path) -> None:
    async with fifo_on(root) as first, fifo_on(root) as second:
        await first.send("1")
        await first.store.create_queue(ORDERS)
        await publish(second.store, b"a")

        assert (await receive(first.store)).body == b"a"
        assert (await second.store.describe_queue(LINE)).ready == 1


async def test_what_the_first_did_meanwhile_the_second_knows(root: Path) -> None:
    async with fifo_on(root) as first, fifo_on(root) as second:
        await second.send("1")
        second.service.close()
        second.service._queues._ownership._fd = None
        for body in ("2", "3"):
            await first.send(body)
        [taken] = await first.receive()
        first.service.close()

        assert (await second.send("3")).is_duplicate
        assert await second.bodies() == []
        await second.remove(taken)
        assert bodies_of(await second.receive(10)) == ["2", "3"]


class LocklessFiles(Files):
    """The kernel has no room for the lock of the FIFO queues while `is_full`."""

    is_full = True

    def lock_byte(self, fd: int, offset: int) -> bool:
        if self.is_full and offset == OFFSET:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        return super().lock_byte(fd, offset)


async def test_a_lock_that_fails_leaves_no_file_open(root: Path) -> None:
    files = LocklessFiles()
    async with fifo_on(root, files) as line:
        before = count_open(root)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="No locks available"):
                await line.send("1")

        assert count_open(root) == before
        files.is_full = False
        await line.send("1")
        assert await line.bodies() == ["1"]
