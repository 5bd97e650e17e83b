"""A message that is too old when it returns is not received, even if the index of its queue has not
heard of it yet."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mq.commit.blocking import BlockingCommitter
from mq.config import ServerConfig
from mq.spool.queue.settings_file import change_settings
from mq.spool.spool import Spool
from mq.store.publishing.publish import publish
from mq.store.receiving.receive import receive
from mq.store.shared_state import Workspace
from tests.support.messages import names_in
from tests.support.processes import wait_until
from tests.support.stores import ORDERS, draft_of


def test_it_is_removed(root: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Workspace(spool, ServerConfig(root=root), lambda: None)
    committer = BlockingCommitter(None, work.begin_round, work.end_calls, time.sleep)
    message_id = committer.run(publish(work, ORDERS, draft_of(b"body"))).message_id
    assert committer.run(receive(work, ORDERS)) is not None
    change_settings(spool, ORDERS, {"ttl": "0.01"})
    work.settings.forget(ORDERS)
    assert committer.run(receive(work, ORDERS)) is None
    leased = root / "delay" / f"orders:{message_id}"
    born_ns = leased.stat().st_ctime_ns
    wait_until(lambda: time.time_ns() > born_ns + 30_000_000)

    # As if a round had begun just before the mover moved it.
    monkeypatch.setattr(work.ready, "drain_sometimes", lambda _: None)
    leased.rename(root / "queues" / ORDERS / message_id)

    assert committer.run(receive(work, ORDERS)) is None
    assert names_in(root / "remove") == [f"orders:{message_id}"]
    work.ready.close()
