"""Who looks for an id passes over the server's own batches at work, unless another publisher may
know an id in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.open_queues import OpenQueue
from mq.spool.rolling import Rolled
from mq.spool.sets import seal_set
from mq.store.publishing.filling import Batch
from mq.store.publishing.parts import BatchPart
from mq.store.publishing.publish import Entry
from mq.store.publishing.twins import finder_for
from tests.support.stores import ORDERS, batch_of, draft_of, publish, store_on

TEAS = QueueName("teas")
OWN = MessageId("own")

Ready = list[tuple[QueueName, MessageId]]


@pytest.mark.parametrize("removes", [False, True], ids=["batch", "handover"])
async def test_a_batch_at_work_is_not_looked_at_for_other_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    looks: list[set[str]] = []
    async with store_on(tmp_path) as store:
        work = store._work
        await publish(store, b"order")
        received = await store.receive(ORDERS, 60)
        assert received is not None
        under_lease = (ORDERS, received.message_id, frozenset({received.lease}))

        def look_and_deliver(self: Batch) -> Rolled:
            names = set(os.listdir(tmp_path / "new"))
            looks.append(names & work.batches_at_work)
            return deliver(self)

        deliver = Batch.deliver_held
        monkeypatch.setattr(Batch, "deliver_held", look_and_deliver)
        entries = batch_of(draft_of(b"bill", OWN), draft_of(b"other"))
        await store.publish_batch(ORDERS, entries, (), under_lease if removes else None)

        assert [len(each) for each in looks] == [1]
        assert not work.batches_at_work


async def test_a_copy_that_others_may_know_is_found_in_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is delivered to its first queue, and who receives it there may publish under its id to
    the second one."""
    missing: list[set[MessageId]] = []
    deliver = Batch._deliver_part

    async with store_on(tmp_path) as store:
        work = store._work
        await store.create_queue(TEAS)

        def look_between(self: Batch, part: BatchPart, opened: OpenQueue) -> Ready:
            if part.queue == TEAS:
                ids = [each.message_id for each in part.published]
                missing.append(finder_for(work, TEAS).missing(ids))
            return deliver(self, part, opened)

        monkeypatch.setattr(Batch, "_deliver_part", look_between)
        await store.publish_batch(ORDERS, batch_of(draft_of(b"one"), draft_of(b"two")), (TEAS,))

    assert missing == [set()]


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_what_is_left_of_a_batch_is_looked_at_again(tmp_path: Path, is_sealed: bool) -> None:
    async with store_on(tmp_path) as store:
        work = store._work
        placed = [(Entry(None, draft_of(b"one", OWN)), work.ids.next_position(OWN))]
        batch = Batch(work, [BatchPart(work, ORDERS, placed)])
        assert batch.write()
        assert work.batches_at_work == {batch.name.open, batch.name.sealed}
        if is_sealed:
            seal_set(work.spool, Folder.NEW, batch.name.open, batch.name.sealed)
            batch.is_sealed = True

        batch.close()

        assert not work.batches_at_work
        assert finder_for(work, ORDERS).missing([OWN]) == (set() if is_sealed else {OWN})
