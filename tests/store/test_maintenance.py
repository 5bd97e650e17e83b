"""What a server does by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mq.commit.group import GroupCommitter
from mq.commit.operation import Operation
from mq.disk.files import Files
from mq.errors import StartRefused
from mq.names import MessageId, QueueName
from mq.spool.network_files import NetworkFiles
from mq.store import maintenance
from mq.store.receiving.received_message import Received
from mq.store.shared_state import Workspace
from mq.store.store import Store
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import LONG_SECONDS, ORDERS, publish, store_on

OF_A_STORE = ("worker", "barrier", "committer")
"""How the names of threads begin that a store starts."""


async def test_a_server_stops_though_a_sweep_is_asked_for_at_that_moment(disk: Path) -> None:
    for turns in range(6):
        async with asyncio.timeout(30):
            async with store_on(disk) as store:
                store._work.request_sweep()
                for _ in range(turns):
                    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("look", "pause"),
    [("queues_to_expire", "SWEEP_SECONDS"), ("_relist_all", "RELIST_SECONDS")],
)
async def test_a_look_that_fails_by_a_defect_is_not_the_last_one(
    disk: Path, monkeypatch: pytest.MonkeyPatch, look: str, pause: str
) -> None:
    looks = 0
    again = asyncio.Event()
    loop = asyncio.get_running_loop()

    def fail(*_: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            loop.call_soon_threadsafe(again.set)
        raise ValueError("planted")

    monkeypatch.setattr(f"mq.store.maintenance.{look}", fail)
    monkeypatch.setattr(f"mq.store.maintenance.{pause}", 0.01)
    async with asyncio.timeout(30), store_on(disk):
        await again.wait()


@pytest.mark.parametrize(
    ("look", "pause"), [("expire", "SWEEP_SECONDS"), ("relist", "RELIST_SECONDS")]
)
async def test_requests_have_their_turn_between_two_queues_of_a_look_also_in_memory(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch, look: str, pause: str
) -> None:
    queues, turn = 10, 0
    turns: list[int] = []
    were_looked_at = asyncio.Event()
    begin = getattr(maintenance, look)

    def note(work: Workspace, queue: QueueName) -> Operation[None]:
        turns.append(turn)
        if len(turns) >= 3 * queues:
            were_looked_at.set()
        operation: Operation[None] = begin(work, queue)
        return operation

    monkeypatch.setattr(maintenance, look, note)
    monkeypatch.setattr(maintenance, pause, 0.01)
    async with asyncio.timeout(30), store_on(quick_folder / look) as store:
        for number in range(queues):
            queue = QueueName(f"q{number}")
            await store.create_queue(queue, {"ttl": "3600"})
            await publish(store, b"body", queue)
        turns.clear()
        while not were_looked_at.is_set():
            turn += 1
            await asyncio.sleep(0)

    assert len(set(turns[-queues:])) == queues


async def _receive(store: Store, _: MessageId) -> None:
    await store.receive(ORDERS, LONG_SECONDS)


async def _take(store: Store, message_id: MessageId) -> None:
    await store.take(ORDERS, message_id, LONG_SECONDS)


async def _submit_receive(store: Store, _: MessageId) -> None:
    def done(taken: list[Received], error: BaseException | None) -> None:
        store.give_back(taken)

    store.submit_receive(ORDERS, done)
    await asyncio.Future()


@pytest.mark.parametrize("receive", [_receive, _take, _submit_receive])
@pytest.mark.parametrize("size", [1, 200_000])
async def test_a_message_whose_receiver_has_left_is_in_its_queue_once_a_server_has_stopped(
    disk: Path, receive: Callable[[Store, MessageId], Coroutine[Any, Any, None]], size: int
) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        message_id = await publish(store, bytes(size))
        gate = files.hold_back(*SYNCS)
        receiving = asyncio.create_task(receive(store, message_id))
        await gate.reached()
        receiving.cancel()
        committer = store._committer
        assert isinstance(committer, GroupCommitter)

        async def let_go_once_it_ends() -> None:
            while not committer._arrivals.is_ending:
                await asyncio.sleep(0.001)
            gate.open()

        letting_go = asyncio.create_task(let_go_once_it_ends())

    await letting_go
    assert names_in(disk / "queues/orders") == [message_id]
    assert names_in(disk / "delay") == []


@pytest.mark.parametrize(
    ("kind", "peers", "has_data_log"),
    [("ext4", 0, True), ("ext4", 1, True), ("xfs", 0, False), ("xfs", 1, True)],
)
async def test_on_xfs_a_server_beside_others_does_not_sync_what_those_write(
    loop_mount: Callable[..., Path], kind: str, peers: int, has_data_log: bool
) -> None:
    async with store_on(loop_mount(kind, 320) / "root", peers=peers) as store:
        assert store._work.spool.has_data_log == has_data_log


@pytest.mark.parametrize(
    ("files_of", "peers", "makes_rounds"),
    [
        (lambda _: Files(), 0, True),
        (lambda _: Files(), 1, True),
        (NetworkFiles, 0, False),
    ],
    ids=["alone", "beside other servers", "on a network"],
)
async def test_the_event_loop_makes_light_rounds_unless_the_network_can_hold_it_up(
    disk: Path, files_of: Callable[[Path], Files], peers: int, makes_rounds: bool
) -> None:
    async with store_on(disk, files_of(disk), peers=peers) as store:
        committer = store._committer
        assert isinstance(committer, GroupCommitter)

        assert (committer._loop_rounds is not None) == makes_rounds


def no_more_threads(monkeypatch: pytest.MonkeyPatch, *, besides: int) -> None:
    """Let the system have no thread for a store any more, after this many."""
    start, left = threading.Thread.start, [None] * besides

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(OF_A_STORE):
            if not left:
                raise RuntimeError("can't start new thread")
            left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


async def test_every_worker_is_there_before_the_system_has_no_thread_left(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root, workers=3) as store:
        no_more_threads(monkeypatch, besides=0)
        at_once = threading.Barrier(3)

        await asyncio.gather(*[store._in_worker(at_once.wait, 30.0) for _ in range(3)])


@pytest.mark.parametrize("besides", range(5))
async def test_a_server_that_lacks_a_thread_does_not_start_and_leaves_none(
    disk: Path, monkeypatch: pytest.MonkeyPatch, besides: int
) -> None:
    no_more_threads(monkeypatch, besides=besides)

    with pytest.raises(StartRefused, match="--workers=3"):
        async with store_on(disk, workers=3):
            pytest.fail("it has started")
    # To end, the process takes a thread as well.
    assert not any(each.name.startswith(OF_A_STORE) for each in threading.enumerate())
