"""Servers of one root reserve what they are about to take."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.names import MessageId, QueueName
from mq.spool.root_format import FORMAT_FILE
from mq.store import reservations
from mq.store.receiving.oldest import next_some
from mq.store.reservations import Reservations
from mq.store.shared_state import Workspace
from tests.support.faults import raising
from tests.support.messages import new_id
from tests.support.stores import LONG_SECONDS, ORDERS, publish, receive, store_on

TEAS = QueueName("teas")
IDS = [MessageId(each) for each in "abcd"]
MOST = reservations._MOST


@pytest.fixture
def ours(theirs: Reservations, root: Path) -> Iterator[Reservations]:
    with closing(Reservations(Files(), str(root))) as some:
        yield some


@pytest.fixture
def theirs(root: Path) -> Iterator[Reservations]:
    root.mkdir()
    (root / FORMAT_FILE).write_text("mq 1\n")
    with closing(Reservations(Files(), str(root))) as some:
        yield some


def test_what_others_have_reserved_is_not_free(ours: Reservations, theirs: Reservations) -> None:
    assert theirs.reserve(ORDERS, IDS[1:3], 9) == IDS[1:3]

    assert ours.reserve(ORDERS, IDS, 9) == [IDS[0], IDS[3]]
    assert ours.reserve(TEAS, IDS[1:2], 9) == IDS[1:2]
    assert theirs.reserve(ORDERS, IDS, 9) == IDS[1:3]


def test_no_more_are_reserved_than_asked_for(ours: Reservations, theirs: Reservations) -> None:
    assert ours.reserve(ORDERS, iter(IDS), 2) == IDS[:2]

    assert theirs.reserve(ORDERS, iter(IDS), 1) == [IDS[2]]
    assert ours.reserve(ORDERS, iter(IDS), 9) == [*IDS[:2], IDS[3]]


@pytest.mark.parametrize("end", [Reservations.release, Reservations.close])
def test_what_is_released_is_free(
    ours: Reservations, theirs: Reservations, end: Callable[[Reservations], None]
) -> None:
    theirs.reserve(ORDERS, IDS, 9)
    end(theirs)

    assert ours.reserve(ORDERS, IDS, 9) == IDS
    ours.release()
    assert theirs.reserve(ORDERS, IDS, 9) == IDS


@pytest.mark.parametrize(
    ("owner", "call"),
    [(Files, "open_to_lock"), (Files, "lock_byte"), (reservations, "unlock_bytes")],
)
def test_where_locks_fail_all_are_free(
    root: Path, theirs: Reservations, monkeypatch: pytest.MonkeyPatch, owner: object, call: str
) -> None:
    files = Files()
    monkeypatch.setattr(files if owner is Files else owner, call, raising(errno.ENOLCK))
    with closing(Reservations(files, str(root))) as ours:
        assert ours.reserve(ORDERS, IDS, 9) == IDS
        ours.release()
        monkeypatch.undo()

        assert theirs.reserve(ORDERS, IDS, 9) == IDS


def test_a_file_for_locks_that_is_missing_is_opened_when_it_is_there(
    root: Path, ours: Reservations, theirs: Reservations
) -> None:
    (root / FORMAT_FILE).rename(root / "elsewhere")
    for _ in range(100):
        assert theirs.reserve(ORDERS, IDS, 9) == IDS
        assert ours.reserve(ORDERS, IDS, 9) == IDS
        ours.release()
        theirs.release()

    (root / "elsewhere").rename(root / FORMAT_FILE)
    assert theirs.reserve(ORDERS, IDS, 9) == IDS
    assert ours.reserve(ORDERS, IDS, 9) == []


def test_no_more_locks_are_taken_than_the_kernel_is_quick_with(
    ours: Reservations, theirs: Reservations
) -> None:
    ids = [new_id() for _ in range(1000)]
    for at in range(0, 1000, 50):
        assert theirs.reserve(ORDERS, ids[at : at + 50], 50) == ids[at : at + 50]

    assert ours.reserve(ORDERS, ids[:MOST], 1000) == []
    assert ours.reserve(ORDERS, ids, 1000) == ids[MOST:]
    theirs.release()
    assert ours.reserve(ORDERS, ids, 1000) == ids


def test_no_more_locks_are_taken_for_one_who_leaves_thousands_to_those_who_wait(
    ours: Reservations, theirs: Reservations
) -> None:
    ids = [new_id() for _ in range(1000)]
    assert theirs.reserve(ORDERS, iter(ids), 900) == ids[:900]

    assert ours.reserve(ORDERS, iter(ids), 1000) == ids[MOST:]
    assert theirs.reserve(ORDERS, iter(ids), 1) == ids[:1]


@pytest.mark.usefixtures("theirs")
def test_messages_share_no_byte_with_names(root: Path) -> None:
    """A producer's own id would seem to be in use."""
    locked: list[int] = []

    class NotingFiles(Files):
        def lock_byte(self, fd: int, offset: int) -> bool:
            locked.append(offset)
            return super().lock_byte(fd, offset)

    with closing(Reservations(NotingFiles(), str(root))) as some:
        some.reserve(ORDERS, [new_id() for _ in range(100)], 100)

    assert min(locked) >= 1 << 62


async def test_messages_that_another_server_is_about_to_take_are_passed_over(
    root: Path, theirs: Reservations
) -> None:
    async with store_on(root, peers=1) as store:
        ids = [await publish(store, b"body") for _ in range(6)]
        theirs.reserve(ORDERS, ids[:2], 2)

        assert (await receive(store)).message_id == ids[2]
        some = await store.receive_many(ORDERS, 2, LONG_SECONDS)
        assert [each.message_id for each in some] == ids[3:5]


async def test_a_server_that_is_stopped_keeps_nothing_back(
    root: Path, theirs: Reservations
) -> None:
    """It has reserved all there is, and takes nothing."""
    async with store_on(root, peers=1) as store:
        ids = [await publish(store, b"body") for _ in range(5)]
        theirs.reserve(ORDERS, ids, 9)

        assert (await receive(store)).message_id == ids[0]
        some = await store.receive_many(ORDERS, 9, LONG_SECONDS)
        assert [each.message_id for each in some] == ids[1:]


async def test_nothing_stays_reserved(root: Path, theirs: Reservations) -> None:
    async with store_on(root, peers=1) as store:
        ids = [await publish(store, b"body") for _ in range(4)]
        await receive(store)
        await store.receive_many(ORDERS, 2, LONG_SECONDS)

        assert theirs.reserve(ORDERS, ids, 4) == ids


async def test_a_server_alone_asks_nobody(root: Path, theirs: Reservations) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        theirs.reserve(ORDERS, ids, 9)

        assert (await receive(store)).message_id == ids[0]


async def test_what_others_reserved_is_not_what_is_left_to_who_asked_before(
    root: Path, theirs: Reservations
) -> None:
    async with store_on(root, peers=1) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        await store.describe_queue(ORDERS)
        theirs.reserve(ORDERS, ids[:1], 1)

        def choose(work: Workspace, leave: int) -> list[MessageId]:
            ready = work.loaded_index(ORDERS)
            assert ready is not None
            return next_some(work, ORDERS, ready, leave, 3)

        assert await store.call(choose, 2) == []
        assert await store.call(choose, 1) == ids[1:2]
        assert await store.call(choose, 0) == ids[2:]
        assert await store.call(choose, 0) == ids[:1]


async def test_a_message_is_left_to_who_asked_before_though_others_took_those_in_front(
    root: Path,
) -> None:
    """The index hears of them while it chooses: they are not what is left to those who wait."""
    async with store_on(root, peers=1) as store:
        ids = [await publish(store, b"body") for _ in range(4)]
        await store.describe_queue(ORDERS)

        def choose(work: Workspace, leave: int) -> list[MessageId]:
            ready = work.loaded_index(ORDERS)
            assert ready is not None
            work.ready.drain_once()
            for each in set(ids[:3]) & set(os.listdir(root / "queues" / ORDERS)):
                (root / "queues" / ORDERS / each).unlink()
            return next_some(work, ORDERS, ready, leave, 3)

        assert await store.call(choose, 1) == []
        assert await store.call(choose, 0) == ids[3:]
