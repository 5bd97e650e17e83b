"""Messages that are taken together, of which one cannot be taken."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mq.disk.file_work import do_together
from mq.disk.files import Files
from mq.errors import PropertiesUnsupported, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.spool.message.held import Lost
from mq.store.answer_memory import AnswerRoom
from mq.store.receiving.received_message import Received
from mq.store.receiving.taking import Taken, Taker
from mq.store.reservations import Reservations
from tests.support.descriptors import count_open
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, seal_of, sealed_with, write_message
from tests.support.stores import LONG_SECONDS, publish, publish_as, receive, store_on
from tests.support.submits import receive_one
from tests.support.workspaces import contents_of, workspace_on

ORDERS = QueueName("orders")
PLAIN, WITH_PROPERTIES, ANOTHER = (
    MessageId(f"0192d7a4-1111-7000-8000-00000000000{number}") for number in range(3)
)


def test_nothing_stays_open_where_no_lease_can_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lease of a message with properties writes the format of the root."""

    def refuse() -> None:
        raise PropertiesUnsupported("none here")

    with workspace_on(tmp_path, ORDERS, lambda: 2_000_000_000 * 10**9, None) as work:
        folder = tmp_path / "queues" / ORDERS
        for plain in (PLAIN, ANOTHER):
            write_message(folder / plain, b"body", seal=seal_of(b"body"))
        seal, data = sealed_with(b"body", {"x-meta-shop": "north"})
        write_message(folder / WITH_PROPERTIES, data, seal=seal)
        descriptors, before = count_open(tmp_path), contents_of(tmp_path)
        monkeypatch.setattr(work.spool, "use_long_seals", refuse)

        with pytest.raises(PropertiesUnsupported):
            Taker(work, ORDERS, 10**9).take_together(
                [PLAIN, WITH_PROPERTIES, ANOTHER], AnswerRoom()
            )
        (outcome,) = do_together([Taker(work, ORDERS, 10**9).take(WITH_PROPERTIES)])

        assert isinstance(outcome, PropertiesUnsupported)
        assert (count_open(tmp_path), contents_of(tmp_path)) == (descriptors, before)


def test_what_has_no_room_beside_an_unusual_message_stays_as_it_is(tmp_path: Path) -> None:
    with workspace_on(tmp_path, ORDERS, lambda: 2_000_000_000 * 10**9, None) as work:
        folder = tmp_path / "queues" / ORDERS
        write_message(folder / PLAIN, b"body", seal=seal_of(b"body"))
        write_message(folder / ANOTHER, b"no seal")
        descriptors, before = count_open(tmp_path), contents_of(tmp_path)

        taken = Taker(work, ORDERS, 10**9).take_together([PLAIN, ANOTHER], AnswerRoom(1 << 40))

        assert taken == [None, None]
        assert (count_open(tmp_path), contents_of(tmp_path)) == (descriptors, before)


def test_a_race_that_is_lost_makes_the_other_messages_no_less_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Taker, "_take_unusual", None)
    with workspace_on(tmp_path, ORDERS, lambda: 2_000_000_000 * 10**9, None) as work:
        folder = tmp_path / "queues" / ORDERS
        held, here, gone = PLAIN, ANOTHER, WITH_PROPERTIES
        for each in (held, here):
            write_message(folder / each, b"body", seal=seal_of(b"body"))
        descriptors = count_open(tmp_path)

        with open(folder / held) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            taken = Taker(work, ORDERS, 10**9).take_together([held, here, gone], AnswerRoom())

        assert [getattr(each, "message_id", each) for each in taken] == [Lost.BUSY, here, Lost.GONE]
        assert count_open(tmp_path) == descriptors


@pytest.mark.parametrize("name", ["0192d7a4-1111-7000-8000-000000000001", "own"])
async def test_what_comes_back_during_a_receive_has_its_place_in_the_answer(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A mover may bring back older messages one by one meanwhile."""
    async with store_on(root) as store:
        first = (await publish_as(store, b"first", message_id=MessageId(name))).message_id
        second = await publish(store, b"second")
        away = (orders / first).rename(root / "delay" / f"{ORDERS}:{first}")
        take_together = Taker.take_together

        def take_and_bring_back(taker: Taker, *asked: Any) -> list[Taken | Exception]:
            if away.exists():
                away.rename(orders / first)
            return take_together(taker, *asked)

        monkeypatch.setattr(Taker, "take_together", take_and_bring_back)

        received = await store.receive_many(ORDERS, 10, None)

        assert [each.message_id for each in received] == [first, second]


def refuse_to_move(message_id: MessageId, files: WatchedFiles) -> None:
    """Fail as a full disk does, where `delay` has room for some names and not for others."""

    def refuse(_source: int, name: str, *_: object) -> None:
        if name == message_id:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.before["rename"] = refuse


async def test_nothing_overtakes_a_message_for_which_the_disk_has_no_room(
    root: Path, orders: Path
) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        published = [await publish(store, b"body") for _ in range(5)]

        refuse_to_move(published[2], files)
        received = await store.receive_many(ORDERS, 4, LONG_SECONDS)
        assert [each.message_id for each in received] == published[:2]
        assert names_in(orders) == published[2:]

        files.before.clear()
        received = await store.receive_many(ORDERS, 4, LONG_SECONDS)

        assert [each.message_id for each in received] == published[2:]
        assert {each.receive_count for each in received} == {1}


async def test_no_receive_of_a_round_overtakes_one_for_which_the_disk_has_no_room(
    root: Path, orders: Path
) -> None:
    """The file calls of all are made together, before the first has failed."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        published = [await publish(store, b"body") for _ in range(4)]

        refuse_to_move(published[0], files)
        asking = [store.receive(ORDERS, LONG_SECONDS) for _ in range(3)]
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(each) for each in outcomes} == {StoreUnavailable}
        assert names_in(orders) == published

        files.before.clear()
        received = [await receive(store) for _ in published]

        assert [each.message_id for each in received] == published
        assert {each.receive_count for each in received} == {1}


async def test_no_receive_of_a_turn_overtakes_one_for_which_the_disk_has_no_room(
    root: Path, orders: Path
) -> None:
    """There are two queues, so one operation takes the messages of both."""
    files, teas = WatchedFiles(), QueueName("teas")
    async with store_on(root, files) as store:
        await store.create_queue(teas)
        tea = await publish(store, b"tea", teas)
        published = [await publish(store, b"body") for _ in range(2)]
        for queue in (ORDERS, teas):
            await store.describe_queue(queue)

        refuse_to_move(published[0], files)
        asking = [receive_one(store, each) for each in (ORDERS, ORDERS, teas)]
        first, second, third = await asyncio.gather(*asking, return_exceptions=True)

        assert isinstance(first, StoreUnavailable)
        assert isinstance(second, StoreUnavailable)
        assert isinstance(third, Received)
        assert third.message_id == tea
        assert names_in(orders) == published


async def test_an_answer_is_in_order_beside_other_servers_too(root: Path) -> None:
    """Those that another server had reserved were taken last."""
    async with store_on(root, peers=1) as store:
        published = [await publish(store, b"%d" % number) for number in range(20)]

        with closing(Reservations(Files(), str(root))) as theirs:
            theirs.reserve(ORDERS, published[3:6], 3)
            received = await store.receive_many(ORDERS, 20, None)

        assert [each.message_id for each in received] == published
