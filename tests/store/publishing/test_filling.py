"""A batch on its way from its set to its queue, and what may come in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.queue.queue_birth import queue_made_ns
from mq.spool.queue.queues import begin_deletion, finish_deletion, make_queue
from mq.store.publishing.filling import Batch
from mq.store.publishing.publish import Published
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, seal_of, write_message
from tests.support.stores import ORDERS, batch_of, draft_of, drain, eventually, publish, store_on

TEAS = QueueName("teas")
OWN = MessageId("own")
COUNT = 5


async def _send(store: Store, count: int = COUNT, delay_seconds: float = 0) -> list[Published]:
    drafts = [draft_of(b"%d" % number, None, delay_seconds) for number in range(count)]
    return await store.publish_batch(ORDERS, batch_of(*drafts))


Act = Callable[[Path, Sequence[str]], object]
"""Takes a sealed set, and the names of its members."""


def _before_delivery(root: Path, files: WatchedFiles, act: Act) -> None:
    """Do something before the next member of a sealed set is delivered."""

    def before_rename(_: int, name: str, *__: object) -> None:
        if "/" in name:
            del files.before["rename"]
            sealed = root / "new" / name.partition("/")[0]
            act(sealed, sorted(names_in(sealed)))

    files.before["rename"] = before_rename


async def _send_meanwhile(
    root: Path, act: Act, files: WatchedFiles
) -> tuple[list[MessageId], list[MessageId]]:
    """Publish a batch, and do something before it is delivered. Returns the ids that were
    published, and those that are received once nothing is left in `new`."""
    acted: list[Path] = []

    def note(sealed: Path, names: Sequence[str]) -> None:
        acted.append(sealed)
        act(sealed, names)

    async with store_on(root, files) as store:
        await publish(store, b"first")
        await drain(store)
        _before_delivery(root, files, note)
        published = [each.message_id for each in await _send(store)]
        assert acted

        async def is_over() -> bool:
            return os.listdir(root / "new") == []

        await eventually(is_over)
        return published, await drain(store)


async def test_no_message_of_a_batch_is_looked_at_before_it_is_delivered(tmp_path: Path) -> None:
    files = WatchedFiles()
    looks = []
    async with store_on(tmp_path, files) as store:
        await _send(store)
        for count in (2, 100):
            before = files.calls["status_of"]
            assert len(await _send(store, count)) == count
            looks.append(files.calls["status_of"] - before)

    assert looks[1] < looks[0] + 50


@pytest.mark.parametrize("files", [Files, WatchedFiles])
async def test_a_batch_is_received_in_its_order(tmp_path: Path, files: type[Files]) -> None:
    async with store_on(tmp_path, files()) as store:
        published = [*await _send(store), *await _send(store, 100)]

        assert await drain(store) == [each.message_id for each in published]
        assert os.listdir(tmp_path / "new") == []


async def test_a_delayed_batch_goes_to_delay(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        published = await _send(store, delay_seconds=1000)

        assert await drain(store) == []
    due = {
        name: (tmp_path / "delay" / name).stat().st_mtime_ns
        for name in names_in(tmp_path / "delay")
    }
    assert due == {f"orders:{each.message_id}": each.visible_ns for each in published}
    assert os.listdir(tmp_path / "new") == []


async def test_a_member_that_a_person_takes_away_costs_no_other(tmp_path: Path) -> None:
    published, received = await _send_meanwhile(
        tmp_path,
        lambda sealed, names: (sealed / names[2]).rename(tmp_path / "taken"),
        WatchedFiles(),
    )

    assert received == [*published[:2], *published[3:]]


async def test_a_file_that_a_person_puts_into_the_set_keeps_no_message(tmp_path: Path) -> None:
    """A message that is put there is delivered with the others."""

    def put(sealed: Path, names: Sequence[str]) -> None:
        shutil.copy(sealed / names[0], sealed / "orders:another")

    published, received = await _send_meanwhile(tmp_path, put, WatchedFiles())

    assert set(received) == {*published, "another"}


@pytest.mark.parametrize("count", [COUNT, 200])
async def test_a_message_of_another_queue_in_the_set_keeps_no_message(
    tmp_path: Path, count: int
) -> None:
    """A long batch is delivered by a worker."""
    files = WatchedFiles()

    def put(sealed: Path, names: Sequence[str]) -> None:
        shutil.copy(sealed / names[0], sealed / "teas:another")

    async with store_on(tmp_path, files) as store:
        await store.create_queue(TEAS)
        await drain(store)
        _before_delivery(tmp_path, files, put)

        published = await _send(store, count)

        assert await drain(store) == [each.message_id for each in published]
        assert await drain(store, TEAS) == ["another"]


async def test_a_move_that_fails_once_is_made_again(tmp_path: Path) -> None:
    files = WatchedFiles()

    published, received = await _send_meanwhile(tmp_path, lambda *_: files.fail("rename"), files)

    assert sorted(received) == published


async def test_a_set_that_another_server_delivers_meanwhile_is_published(tmp_path: Path) -> None:
    def deliver(sealed: Path, names: Sequence[str]) -> None:
        for name in names:
            (sealed / name).rename(tmp_path / "queues" / "orders" / name.partition(":")[2])
        sealed.rmdir()

    published, received = await _send_meanwhile(tmp_path, deliver, WatchedFiles())

    assert sorted(received) == published


async def test_a_message_whose_name_is_taken_waits_in_its_set(tmp_path: Path) -> None:
    """No file is replaced."""
    taken: list[Path] = []

    def take(_: Path, names: Sequence[str]) -> None:
        taken.append(tmp_path / "queues" / "orders" / names[0].partition(":")[2])
        taken[0].write_bytes(b"a person's")

    files = WatchedFiles()
    async with store_on(tmp_path, files) as store:
        _before_delivery(tmp_path, files, take)
        published = [each.message_id for each in await _send(store)]

        assert names_in(tmp_path / "queues" / "orders") == published
        assert taken[0].read_bytes() == b"a person's"
        (left,) = (tmp_path / "new").iterdir()
        assert [path.read_bytes() for path in left.iterdir()] == [b"0"]


async def test_a_long_batch_is_not_looked_at_either(tmp_path: Path) -> None:
    files = WatchedFiles()
    looks = []
    async with store_on(tmp_path, files) as store:
        await _send(store, 300)
        for count in (200, 300):
            before = files.calls["status_of"]
            published = await _send(store, count)
            looks.append(files.calls["status_of"] - before)

        assert looks[1] < looks[0] + 50  # Others may look at something meanwhile.
        assert (await drain(store))[-300:] == [each.message_id for each in published]
    assert os.listdir(tmp_path / "new") == []


async def test_own_ids_are_not_older_than_a_queue_that_is_made_again_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue would forget them too early: once the message is purged, for example."""
    fill, spool = Batch.fill, store._work.spool

    def fill_later(batch: Batch) -> bool:
        (_, position), *_ = batch.parts[0].placed
        while (queue_made_ns(spool, ORDERS) or 0) <= position.published_ns:
            assert begin_deletion(spool, ORDERS)
            finish_deletion(spool, ORDERS)
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)
        return fill(batch)

    monkeypatch.setattr(Batch, "fill", fill_later)
    monkeypatch.setattr(Batch, "fits_one_call", False)
    entries = batch_of(draft_of(b"body", OWN), draft_of(b"another", MessageId("another")))

    with pytest.raises(StoreUnavailable, match="is being made again"):
        await store.publish_batch(ORDERS, entries)

    assert names_in(spool.root / "queues" / ORDERS) == []
    monkeypatch.undo()
    published = await store.publish_batch(ORDERS, entries)
    assert [each.is_duplicate for each in published] == [False, False]
    await store.purge(ORDERS)
    assert all(each.is_duplicate for each in await store.publish_batch(ORDERS, entries))


async def test_a_dead_letter_of_an_older_queue_is_no_message_of_one_that_is_just_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """409 would say that the message can never be published under its id."""
    fill, spool = Batch.fill, store._work.spool

    def fill_late(batch: Batch) -> bool:
        assert begin_deletion(spool, ORDERS)
        return fill(batch)

    await store.create_queue(QueueName(f"{ORDERS}.dead"))
    older = seal_of(b"older", published_ns=1)
    write_message(spool.root / "queues" / f"{ORDERS}.dead" / "own", b"older", seal=older)
    monkeypatch.setattr(Batch, "fill", fill_late)

    with pytest.raises(QueueNotFound):
        await store.publish_batch(ORDERS, batch_of(draft_of(b"body", OWN), draft_of(b"another")))
