"""A message that is too old when it returns is not received, even if the index of its queue has not
heard of it yet, or the mover still holds it when a receive looks for what is too old."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest

from mq.commit.blocking import BlockingCommitter
from mq.commit.operation import Operation
from mq.config import ServerConfig
from mq.lifecycle import Folder
from mq.spool.message.held import Held, hold_in
from mq.spool.queue.settings_file import change_settings
from mq.spool.spool import Spool
from mq.store.publishing.publish import publish
from mq.store.queue.expiry import expire_some
from mq.store.receiving import lease_each as leasing_each
from mq.store.receiving import receive as receiving
from mq.store.receiving.lease_each import lease_each
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import receive, receive_some
from mq.store.shared_state import Workspace
from tests.support.messages import names_in
from tests.support.processes import wait_until
from tests.support.stores import ORDERS, draft_of

T = TypeVar("T")


@pytest.fixture
def work(root: Path, spool: Spool) -> Iterator[Workspace]:
    work = Workspace(spool, ServerConfig(root=root), lambda: None)
    yield work
    work.ready.close()


def run(work: Workspace, operation: Operation[T]) -> T:
    committer = BlockingCommitter(None, work.begin_round, work.end_calls, time.sleep)
    return committer.run(operation)


def outlived(work: Workspace) -> Path:
    """Publish a message that is too old, and has been received before. Returns its file."""
    message_id = run(work, publish(work, ORDERS, draft_of(b"body"))).message_id
    assert run(work, receive(work, ORDERS)) is not None
    change_settings(work.spool, ORDERS, {"ttl": "0.01"})
    work.settings.forget(ORDERS)
    assert run(work, receive(work, ORDERS)) is None
    leased = work.spool.root / "delay" / f"orders:{message_id}"
    born_ns = leased.stat().st_ctime_ns
    wait_until(lambda: time.time_ns() > born_ns + 30_000_000)
    return leased


def test_it_is_removed(root: Path, work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    leased = outlived(work)

    # As if a round had begun just before the mover moved it.
    monkeypatch.setattr(work.ready, "drain_sometimes", lambda _: None)
    leased.rename(root / "queues" / ORDERS / leased.name.partition(":")[2])

    assert run(work, receive(work, ORDERS)) is None
    assert names_in(root / "remove") == [leased.name]


@pytest.mark.parametrize("asked", [1, 2])
@pytest.mark.parametrize("module", [receiving, leasing_each])
def test_it_is_removed_though_the_mover_holds_it_when_the_receive_looks(
    root: Path, work: Workspace, monkeypatch: pytest.MonkeyPatch, module: ModuleType, asked: int
) -> None:
    leased = outlived(work)
    ready = f"{ORDERS}/{leased.name.partition(':')[2]}"
    leased.rename(root / "queues" / ready)
    looks: list[object] = []

    def look_meanwhile(*args: Any) -> bool:
        held = hold_in(work.spool, Folder.QUEUES, ready)
        looks.append(held)
        try:
            return expire_some(*args)
        finally:
            if isinstance(held, Held):
                held.close()

    monkeypatch.setattr(module, "expire_some", look_meanwhile)
    ask = Ask(limit=asked)

    if module is receiving:
        assert run(work, receive_some(work, ORDERS, ask)) == []
    else:
        assert run(work, lease_each(work, [(ORDERS, ask)])) == [None]

    assert isinstance(looks[0], Held)
    assert names_in(root / "remove") == [leased.name]
    assert names_in(root / "delay") == []
    counts = work.counts.of(ORDERS)
    assert (counts.received, counts.expired) == (1, 1)
