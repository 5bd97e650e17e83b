"""A power cut at any moment: what was answered holds, by the crash model of the design."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from structlog.testing import capture_logs

from mq.config import ReaperConfig
from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.by_id import Guard
from mq_reaper.reaper import Reaper
from tests.crash.power import Disk, PowerFiles
from tests.support.messages import SECOND_NS, names_in, read_seal
from tests.support.model import INDEX, SECONDS, SIZES, ModelMessage
from tests.support.producers import BATCHES, NUMBERS, Producers, own_id
from tests.support.stores import publish, publish_as

CALLS = st.integers(0, 16)
KEPT = st.sampled_from([0.0, 0.3, 0.6, 1.0])


class PowerCuts(Producers):
    """One server, a mover and a reaper on a disk whose power is cut now and then."""

    max_receives = 0

    def __init__(self) -> None:
        self.disk: Disk | None = None
        self.never_answered: set[str] = set()
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        assert self.disk is not None
        self.disk.close()

    def _new_files(self) -> PowerFiles:
        if self.disk is None:
            self.disk = Disk(Path(self._folder.name, "graveyard"))
        return PowerFiles(self.disk)

    @rule()
    def reap(self) -> None:
        with closing(Reaper(ReaperConfig(self.root / "remove"), self._new_files())) as reaper:
            reaper.reap()

    @invariant()
    def nothing_is_damaged(self) -> None:
        """Nothing, that is, that was ever answered."""
        names = self._damaged() - self.never_answered
        damaged = {name.partition(":")[2] for name in names}
        assert not damaged & self.gone
        assert not any(damaged & messages.keys() for messages in self.queues.values())

    def _damaged(self) -> set[str]:
        corrupt = self.root / "corrupt"
        return set(names_in(corrupt)) if corrupt.exists() else set()

    def _cut(self, calls: int, kept: float, work: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
        """Run `work` until it is answered or `calls` changes are made; then the power goes.
        Returns whether it was answered, and with what."""
        server = self.running[0]
        server.files.calls_left = calls
        answered, answer = True, None
        try:
            answer = server.run(work)
        except StoreUnavailable:
            answered = False
        server.kill()
        assert self.disk is not None
        self.disk.cut(kept)
        self._start_again(0)
        return answered, answer

    def _compare(self, queue: QueueName) -> None:
        """Every message is where its last answer put it; where none did, it is somewhere."""
        for message_id, message in self.queues[queue].items():
            path = self.root / "queues" / queue / message_id
            is_ready = path.exists()
            if not is_ready:
                path = self.root / "delay" / f"{queue}:{message_id}"
            seal = read_seal(path)
            assert path.read_bytes() == message.body
            if message.is_durable:
                assert is_ready == (message.visible_at is None)
                assert (seal.receive_count, seal.lease) == (message.count, message.lease)
            left_seconds = (path.stat().st_mtime_ns - time.time_ns()) / SECOND_NS
            message.visible_at = None if is_ready else self.now + max(round(left_seconds), 0)
            message.count, message.lease = seal.receive_count, seal.lease
            message.is_durable = True

    def _compare_all(self) -> None:
        not_looked_at = {self.root / "corrupt" / name for name in self.never_answered}
        on_disk = {
            path.name.rpartition(":")[2]
            for path in self.root.rglob("*")
            if "remove" not in path.parts and path not in not_looked_at
        }
        assert not self.gone & on_disk
        for queue in self.queues:
            self._compare(queue)

    def _queue(self, index: int) -> QueueName:
        return sorted(self.queues)[index % len(self.queues)]

    @rule(calls=CALLS, kept=KEPT, index=INDEX)
    def cut_during_create(self, calls: int, kept: float, index: int) -> None:
        queue = (QueueName("a"), QueueName("b"))[index % 2]
        answered, _ = self._cut(calls, kept, self.running[0].store.create_queue(queue))
        if answered or (self.root / "queues" / queue).exists():
            self.queues.setdefault(queue, {})
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX)
    def cut_during_delete(self, calls: int, kept: float, index: int) -> None:
        if not self.queues:
            return
        queue = self._queue(index)
        answered, _ = self._cut(calls, kept, self.running[0].store.delete_queue(queue))
        if answered or not (self.root / "queues" / queue).exists():
            self.gone |= self.queues.pop(queue).keys()
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX, size=SIZES)
    def cut_during_publish(self, calls: int, kept: float, index: int, size: int) -> None:
        if not self.queues:
            return
        queue, body = self._queue(index), self._body(size)
        known = self.queues[queue]
        answered, answer = self._cut(calls, kept, publish(self.running[0].store, body, queue))
        if answered:
            known[answer] = ModelMessage(body)
        else:
            found = set(names_in(self.root / "queues" / queue)) - known.keys()
            known |= {MessageId(message_id): ModelMessage(body) for message_id in found}
        self._compare_all()

    @rule(calls=st.integers(0, 40), kept=KEPT, index=INDEX, delays=BATCHES)
    def cut_during_batch(self, calls: int, kept: float, index: int, delays: list[int]) -> None:
        if not self.queues:
            return
        queue, entries = self._queue(index), self._batch(delays)
        store = self.running[0].store
        answered, _ = self._cut(calls, kept, store.publish_batch(queue, entries))
        ids = self.find_batch(queue, entries)
        assert len(ids) == len(entries) or (not ids and not answered)
        if ids:
            self.note_batch(queue, ids, entries, delays)
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX, number=NUMBERS, size=SIZES)
    def cut_during_publish_own(
        self, calls: int, kept: float, index: int, number: int, size: int
    ) -> None:
        """Sent again after the cut, and again after the next: it is there once and stays."""
        if not self.queues:
            return
        queue = self._queue(index)
        message_id, body = own_id(queue, number), b"o" * size
        if self._published_before(queue, message_id) is None:
            before = self._damaged()
            answered, _ = self._cut(
                calls, kept, publish_as(self.running[0].store, body, queue, message_id)
            )
            if not answered:
                # A torn file of this id: the one that is published below is another.
                self.never_answered |= self._damaged() - before
            self.gone.discard(message_id)
            if (self.root / "queues" / queue / message_id).exists():
                self.queues[queue][message_id] = ModelMessage(body)
            self._publish_own(queue, message_id, body, self.running[0])
            self._cut(99, kept, self.running[0].store.describe_queue(queue))
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX, seconds=SECONDS)
    def cut_during_receive(self, calls: int, kept: float, index: int, seconds: int) -> None:
        if not self.queues:
            return
        queue = self._queue(index)
        store = self.running[0].store
        answered, received = self._cut(calls, kept, store.receive(queue, seconds))
        if received is not None:
            received.close(self.running[0].store._work.files)
            self.note_received(received, seconds)
        elif not answered:
            for message_id in self._ready(queue)[:1]:
                self.queues[queue][message_id].is_durable = False
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX, seconds=SECONDS, keeps_lease=st.booleans())
    def cut_during_take_by_id(
        self, calls: int, kept: float, index: int, seconds: int, keeps_lease: bool
    ) -> None:
        """Without an answer it is under one of the two leases, or its place in the queue."""
        if not self.has_messages():
            return
        queue, message_id = self._pick(index)
        message = self.queues[queue][message_id]
        guard = Guard(frozenset({message.lease})) if keeps_lease and message.lease else None
        take = self.running[0].store.take(queue, message_id, seconds, guard)
        answered, received = self._cut(calls, kept, take)
        if answered:
            received.close(self.running[0].store._work.files)
            message.visible_at, message.is_durable = self.now + seconds, True
            message.lease, message.count = received.lease, received.receive_count
        else:
            message.is_durable = False
        self._compare_all()
        assert not answered or message.visible_at == self.now + seconds

    @rule(calls=CALLS, kept=KEPT, index=INDEX)
    def cut_during_release_by_id(self, calls: int, kept: float, index: int) -> None:
        if not self.has_messages():
            return
        queue, message_id = self._pick(index)
        self._cut(calls, kept, self.running[0].store.release_by_id(queue, message_id))
        self.queues[queue][message_id].is_durable = False
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX)
    def cut_during_remove(self, calls: int, kept: float, index: int) -> None:
        if not self.has_messages():
            return
        queue, message_id = self._pick(index)
        answered, _ = self._cut(calls, kept, self.running[0].store.remove(queue, message_id))
        places = (f"queues/{queue}/{message_id}", f"delay/{queue}:{message_id}")
        if answered or not any((self.root / place).exists() for place in places):
            self.note_removed(queue, message_id)
        self._compare_all()

    @rule(calls=CALLS, kept=KEPT, index=INDEX)
    def cut_during_release(self, calls: int, kept: float, index: int) -> None:
        if not self.receipts:
            return
        receipt = self.receipts[index % len(self.receipts)]
        self._cut(calls, kept, self.running[0].store.put_back(receipt))
        message = self.queues.get(receipt.queue, {}).get(receipt.message_id)
        if message is not None:
            message.is_durable = False
        self._compare_all()


def test_what_was_answered_survives_a_power_cut(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(disk.parent))
    limits = settings(
        max_examples=60,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with capture_logs():
        run_state_machine_as_test(PowerCuts, settings=limits)
