"""A purge through the store: what its clients see of it, and what a kill anywhere leaves."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NoReturn

import pytest

from mq.commit.barrier import Barrier
from mq.commit.blocking import BlockingCommitter
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import MessageNotFound, QueueNotFound, StoreUnavailable
from mq.lifecycle import PurgeScope
from mq.names import MessageId, QueueName
from mq.spool.queue import purging
from mq.spool.root import open_root
from mq.spool.sweep import Sweeper
from mq.store import patience
from mq.store.by_id import Guard
from mq.store.opening import open_store
from mq.store.queue.purge import purge
from mq.store.shared_state import Workspace
from mq.store.store import Store
from tests.support.faults import SYNCS, WATCHED, CountedFiles, WatchedFiles
from tests.support.messages import seal_of, write_message
from tests.support.stores import ORDERS, drain, publish, publish_as, receive, store_on

OWN = MessageId("order-4711")


async def test_a_purge_counts_what_it_takes_and_the_queue_goes_on(store: Store) -> None:
    for _ in range(3):
        await publish(store, b"old")
    await receive(store)
    await publish_as(store, b"late", delay_seconds=1000)

    assert await store.purge(ORDERS) == 4

    assert await store.purge(ORDERS) == 0
    new = await publish(store, b"new")
    assert await drain(store) == [new]


async def test_whoever_works_on_a_purged_message_learns_that_it_is_gone(store: Store) -> None:
    await publish(store, b"body")
    received = await receive(store)
    leases = frozenset({received.lease})

    await store.purge(ORDERS)

    for ending in (
        store.remove(ORDERS, received.message_id, leases),
        store.remove(ORDERS, received.message_id),
        store.release_by_id(ORDERS, received.message_id, Guard(leases)),
        store.take(ORDERS, received.message_id, 60.0, Guard(leases)),
    ):
        with pytest.raises(MessageNotFound):
            await ending


@pytest.mark.parametrize("delay_seconds", [0, 1000], ids=["ready", "delayed"])
async def test_an_own_id_stays_known(store: Store, delay_seconds: float) -> None:
    await publish_as(store, b"body", message_id=OWN, delay_seconds=delay_seconds)

    await store.purge(ORDERS)

    assert (await publish_as(store, b"body", message_id=OWN)).is_duplicate
    assert await drain(store) == []


async def test_an_own_id_is_new_to_a_queue_that_is_made_again(store: Store) -> None:
    await publish_as(store, b"body", message_id=OWN)
    await store.purge(ORDERS)
    await store.delete_queue(ORDERS)
    await store.create_queue(ORDERS)

    assert not (await publish_as(store, b"body", message_id=OWN)).is_duplicate


async def test_another_server_gives_out_nothing_that_was_purged(store: Store, root: Path) -> None:
    async with open_store(ServerConfig(root=root)) as other:
        for _ in range(3):
            await publish(store, b"body")
        await other.describe_queue(ORDERS)

        assert await store.purge(ORDERS) == 3

        assert await drain(other) == []


@pytest.fixture
def long_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "LONG_QUEUE", 1)


@pytest.mark.usefixtures("long_queue")
async def test_servers_go_on_with_the_folder_that_takes_the_place_of_a_long_queue(
    store: Store, root: Path
) -> None:
    async with open_store(ServerConfig(root=root)) as other:
        await publish(store, b"old")
        assert (await other.describe_queue(ORDERS)).ready == 1
        waiting = asyncio.ensure_future(other.receive(QueueName("orders"), 60.0))
        assert (await waiting) is not None
        await publish(store, b"old")

        assert await store.purge(ORDERS) == 2

        new = await publish(store, b"new")
        assert await drain(other) == [new]
        newer = await publish(other, b"newer")
        assert await drain(store) == [newer]


@pytest.mark.usefixtures("long_queue")
async def test_an_own_id_stays_known_in_a_long_queue(store: Store) -> None:
    await publish_as(store, b"body", message_id=OWN)

    await store.purge(ORDERS)

    assert (await publish_as(store, b"body", message_id=OWN)).is_duplicate
    assert await drain(store) == []


@pytest.mark.usefixtures("long_queue")
async def test_settings_of_a_long_queue_stay(store: Store) -> None:
    await store.create_queue(ORDERS, {"paused": "true", "ttl": "1000"})
    await publish(store, b"old")

    await store.purge(ORDERS)

    await publish(store, b"new")
    assert await store.receive(ORDERS, 60.0) is None
    await store.create_queue(ORDERS, {"paused": ""})
    assert (await store.describe_queue(ORDERS)).settings.ttl_seconds == 1000
    assert len(await drain(store)) == 1


async def test_what_another_process_is_delivering_is_waited_for(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be promised already, where its server could not deliver it."""
    monkeypatch.setattr(patience, "PURGE_LOCK_SECONDS", 0.05)
    path = write_message(root / "new/orders:5")
    files = Files()
    fd = files.open_message(os.open(root / "new", os.O_RDONLY), path.name)
    assert files.lock(fd)
    with pytest.raises(StoreUnavailable, match="delivering"):
        await store.purge(ORDERS)
    files.close(fd)

    assert await store.purge(ORDERS) == 1


async def test_purging_no_queue_is_an_error(store: Store) -> None:
    await store.delete_queue(ORDERS)
    with pytest.raises(QueueNotFound):
        await store.purge(ORDERS)


async def test_requests_wait_while_a_purge_has_the_queue(
    disk: Path, queue_alone: Callable[[], AbstractContextManager[int]]
) -> None:
    async with store_on(disk) as store:
        message_id = await publish(store, b"body")
        with queue_alone():
            waiting = [
                asyncio.ensure_future(asking)
                for asking in (
                    publish(store, b"new"),
                    store.receive(ORDERS, 60.0),
                    store.remove(ORDERS, message_id),
                    publish_as(store, b"own", message_id=OWN),
                )
            ]
            done, _ = await asyncio.wait(waiting, timeout=0.1)
            assert not done

        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)


async def test_requests_give_up_when_a_purge_hangs(
    store: Store,
    queue_alone: Callable[[], AbstractContextManager[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process was stopped, for example. Other queues are served."""
    for module in (purging, patience):
        monkeypatch.setattr(module, "PURGE_LOCK_SECONDS", 0.02)
    other = QueueName("other")
    await store.create_queue(other)
    with queue_alone():
        for asking in (
            publish(store, b"new"),
            store.receive(ORDERS, 60.0),
            store.remove(ORDERS, MessageId("absent")),
            store.purge(ORDERS),
        ):
            with pytest.raises(StoreUnavailable):
                await asking
        await publish(store, b"body", other)
    await publish(store, b"new")


async def test_a_purge_that_is_not_synced_is_refused(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await publish(store, b"body")
        files.fail(*SYNCS)
        with pytest.raises(StoreUnavailable):
            await store.purge(ORDERS)


@pytest.fixture
def queue_alone(root: Path) -> Callable[[], AbstractContextManager[int]]:
    """`queue_alone()` has the queue as a purge does."""
    files = Files()

    def have() -> AbstractContextManager[int]:
        return files.locked_folder(files.open_folder(None, str(root / "queues")), ORDERS)

    return have


class PurgeKilled(BaseException):
    """No handler in the code catches it."""


def _kill() -> NoReturn:
    raise PurgeKilled


STATES = {"ready": "queues/orders/1", "leased": "delay/orders:2", "delayed": "delay/orders:3"}


def _fill(root: Path) -> None:
    (root / "queues" / ORDERS).mkdir()
    for state, path in STATES.items():
        seal = seal_of(state.encode(), lease=7 if state == "leased" else 0)
        due = 1000 if path.startswith("delay") else None
        write_message(root / path, state.encode(), seal=seal, due_in_seconds=due)


def _is_killed(root: Path, scope: PurgeScope, calls: int) -> bool:
    """Purge with a kill after `calls` file calls. Returns False if that is after the last one."""
    files = CountedFiles(WATCHED - {"close"}, _kill)
    with closing(open_root(root, 0o700, files)[0]) as spool, closing(Barrier(spool)) as barrier:
        work = Workspace(spool, ServerConfig(root=root), lambda: None)
        files.calls_left = calls
        with closing(work.ready):
            try:
                BlockingCommitter(barrier).run(purge(work, ORDERS, scope))
            except PurgeKilled:
                return True
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("scope", PurgeScope)
@pytest.mark.parametrize("long_queue", [1, 1000], ids=["by its folder", "message by message"])
def test_killed_anywhere_it_leaves_each_message_removed_or_as_it_was(
    tmp_path: Path, scope: PurgeScope, long_queue: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "LONG_QUEUE", long_queue)
    left = set()
    for calls in itertools.count():
        root = tmp_path / f"root{calls}"
        open_root(root, 0o700, Files())[0].close()
        _fill(root)
        is_killed = _is_killed(root, scope, calls)

        with closing(open_root(root, 0o700, Files())[0]) as spool:
            Sweeper(spool, lambda *_: pytest.fail(f"{_}")).sweep()

        alive = {state for state, path in STATES.items() if (root / path).exists()}
        bodies = [path.read_text() for path in root.glob("remove/orders:.purged/[0-9]*/*")]
        assert {*alive, *bodies} == set(STATES)
        assert len(alive) + len(bodies) == 3
        assert not list(root.glob("remove/orders:.purged/*.open"))
        left.add(frozenset(alive))
        if not is_killed:
            break
    rest = set() if scope is PurgeScope.ALL else {"leased", "delayed"}
    assert alive == rest
    assert {frozenset(STATES), frozenset(rest)} <= left
