"""The lock that queues are made and deleted under is held by a process that does not go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mq.config import MoverConfig
from mq.ctl.ways.by_root import RootAccess
from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.store import Store
from mq_mover.mover import Mover
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, stamp
from tests.support.stores import ORDERS, publish, receive, store_on

RETURNS = QueueName("returns")


@contextmanager
def _locked_queues(root: Path) -> Iterator[None]:
    """Another process has stopped while it made a queue."""
    files = Files()
    fd = files.open_folder(None, str(root / "queues"))
    assert files.lock(fd)
    yield
    files.close(fd)


@pytest.mark.parametrize("step", ["create_queue", "delete_queue"])
@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_nobody_else_waits_for_the_lock_that_a_queue_is_made_and_deleted_under(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_in_memory: bool
) -> None:
    monkeypatch.setattr("mq.store.patience.FOLDER_LOCK_SECONDS", 60.0)
    if is_in_memory:
        monkeypatch.setattr("mq.spool.file_system.file_system_kind", lambda _: "tmpfs")
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await store.create_queue(RETURNS)
        queue = RETURNS if step == "delete_queue" else QueueName("other")
        with _locked_queues(root):
            files.calls.clear()
            waiting = asyncio.create_task(getattr(store, step)(queue))
            async with asyncio.timeout(100):
                while files.calls["lock"] < 2:
                    await asyncio.sleep(0)

                published = await publish(store, b"body")

            assert (await receive(store)).message_id == published
            assert not waiting.done()

        await waiting

    assert (root / "queues" / queue).exists() is (step == "create_queue")


@pytest.mark.parametrize("step", ["create_queue", "delete_queue"])
async def test_a_lock_that_is_never_let_go_is_unavailable(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr("mq.store.patience.FOLDER_LOCK_SECONDS", 0.0)

    async def by_server(act: Callable[[Store], Coroutine[Any, Any, object]]) -> None:
        async with store_on(root) as store:
            await store.create_queue(RETURNS)
            with _locked_queues(root), pytest.raises(StoreUnavailable, match="holds the lock of"):
                await act(store)

    queue = RETURNS if step == "delete_queue" else QueueName("other")
    await by_server(lambda store: getattr(store, step)(queue))
    with (
        closing(RootAccess(root)) as access,
        _locked_queues(root),
        pytest.raises(StoreUnavailable, match="holds the lock of the folder queues; try again"),
    ):
        getattr(access, step)(queue)

    assert names_in(root / "queues") == ["orders", "returns"]


async def test_a_release_to_dead_letters_waits_for_no_lock_in_the_committer(root: Path) -> None:
    async with store_on(root, max_receives=1) as store:
        message_id = await publish(store, b"body")
        await receive(store)

        with _locked_queues(root), pytest.raises(StoreUnavailable, match="held by another process"):
            await store.release_by_id(ORDERS, message_id)
        await store.release_by_id(ORDERS, message_id)

    assert names_in(root / "queues" / "orders.dead") == [message_id]


async def test_a_mover_that_needs_a_queue_for_dead_letters_goes_on_with_others(root: Path) -> None:
    async with store_on(root) as store:
        published: list[MessageId] = []
        for _ in range(2):
            published.append(await publish(store, b"body"))
            await receive(store)
        await store.create_queue(RETURNS)
        await store.create_queue(QueueName("returns.dead"))
        returned = await publish(store, b"body", RETURNS)
        await receive(store, RETURNS)
    for number, name in enumerate(sorted(os.listdir(root / "delay"))):
        stamp(root / "delay" / name, due_in_seconds=number - 100)
    config = MoverConfig(root / "delay", root / "queues", max_receives=1)

    with closing(Mover(config, Files())) as mover:
        with _locked_queues(root):
            mover.scan()
            mover.move_due()
            assert names_in(root / "queues" / "returns.dead") == [returned]
        while os.listdir(root / "delay"):
            mover.move_due()

    assert names_in(root / "queues" / "orders.dead") == published
