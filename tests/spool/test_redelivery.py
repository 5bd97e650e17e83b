"""Redeliver: out of `delay` to the queue or to the dead letters; nothing is replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.locks import lock_names
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.message.held import Held, hold
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.redelivery import DeadQueueBeingDeleted, redeliver
from mq.spool.root_format import FORMAT_FILE
from mq.spool.spool import Spool
from tests.support.messages import names_in, read_seal, seal_of, write_message


def _leased(spool: Spool, queue: str = "orders", *, count: int = 1) -> Path:
    return write_message(
        spool.root / "delay" / f"{queue}:1", seal=seal_of(b"body", count=count, lease=7)
    )


def _redeliver(
    spool: Spool,
    name: str = "orders:1",
    max_receives: int = 0,
    settings: QueueSettings = NO_SETTINGS,
) -> bool:
    queue = QueueName(name.partition(":")[0])
    rule = settings.dead_letter_rule(queue, max_receives)
    delay = spool.opened(Folder.DELAY)
    held = hold(spool.files, delay.fd, name)
    assert isinstance(held, Held)
    with held:
        return redeliver(spool.moves, held, delay, spool.queues, rule) is not None


def _queue(spool: Spool, name: str) -> list[str]:
    return names_in(spool.root / "queues" / name)


def _queues(spool: Spool) -> list[str]:
    return names_in(spool.root / "queues")


def test_message_goes_to_its_queue_with_lease_and_count_as_they_were(spool: Spool) -> None:
    _leased(spool, count=3)

    assert _redeliver(spool)

    assert names_in(spool.root / "delay") == []
    message = spool.root / "queues" / "orders" / "1"
    assert read_seal(message) == seal_of(b"body", count=3, lease=7)


def test_message_of_a_missing_queue_stays(spool: Spool) -> None:
    leased = _leased(spool, "gone")

    assert not _redeliver(spool, "gone:1")

    assert leased.exists()
    assert _queues(spool) == ["orders"]


def test_name_that_the_queue_has_already_is_not_replaced(spool: Spool) -> None:
    leased = _leased(spool)
    other = write_message(spool.root / "queues" / "orders" / "1", b"other")

    with pytest.raises(FileExistsError):
        _redeliver(spool)

    assert (leased.read_bytes(), other.read_bytes()) == (b"body", b"other")


def test_message_received_often_enough_goes_to_the_dead_letters(spool: Spool) -> None:
    _leased(spool, count=3)

    assert _redeliver(spool, max_receives=3)

    assert _queue(spool, "orders") == []
    assert _queue(spool, "orders.dead") == ["1"]
    dead, orders = (spool.root / "queues" / name for name in ("orders.dead", "orders"))
    assert dead.stat().st_mode & 0o777 == (spool.root / "queues").stat().st_mode & 0o777
    assert orders.exists()


def test_message_received_less_often_goes_to_its_queue(spool: Spool) -> None:
    _leased(spool, count=2)

    assert _redeliver(spool, max_receives=3)

    assert _queue(spool, "orders") == ["1"]
    assert _queues(spool) == ["orders"]


def test_dead_letters_do_not_die_again(spool: Spool) -> None:
    (spool.root / "queues" / "orders.dead").mkdir()
    _leased(spool, "orders.dead", count=9)

    assert _redeliver(spool, "orders.dead:1", max_receives=3)

    assert _queue(spool, "orders.dead") == ["1"]
    assert _queues(spool) == ["orders", "orders.dead"]


def test_missing_queue_gets_no_dead_letters(spool: Spool) -> None:
    leased = _leased(spool, "gone", count=3)

    assert not _redeliver(spool, "gone:1", max_receives=3)

    assert leased.exists()
    assert _queues(spool) == ["orders"]


_OTHERS = [
    "new/orders.dead:1",
    "new/.orders.dead:01a1fd26-2a71-7b43-8a4e-0cbd4d3f9c11/orders.dead:1",
    "queues/orders.dead/1",
    "delay/orders.dead:1",
    "spark/claims/lake/3/orders.dead:1",
    "spark/claims/lake/4.open.t7/0/orders.dead:1",
]


@pytest.mark.parametrize("place", _OTHERS)
def test_a_message_lives_on_while_its_dead_letters_have_another_of_its_id(
    spool: Spool, place: str
) -> None:
    """Two of one id in a queue keep each other from it: neither would be received any more."""
    _leased(spool, count=3)
    (spool.root / "queues" / "orders.dead").mkdir()
    (spool.root / place).parent.mkdir(parents=True, exist_ok=True)
    other = write_message(spool.root / place, b"other")

    assert _redeliver(spool, max_receives=3)

    assert _queue(spool, "orders") == ["1"]
    assert other.read_bytes() == b"other"
    message = spool.root / "queues" / "orders" / "1"
    assert DEAD_ATTRIBUTE not in os.listxattr(message)
    other.unlink()
    message.rename(spool.root / "delay" / "orders:1")
    assert _redeliver(spool, max_receives=3)
    assert _queue(spool, "orders.dead") == ["1"]


@pytest.mark.parametrize(
    "place",
    ["remove/orders.dead:1", "new/.orders.dead:7.open/orders.dead:1", "corrupt/orders.dead:1"],
)
def test_what_is_not_in_the_queue_keeps_no_dead_letter_from_it(spool: Spool, place: str) -> None:
    _leased(spool, count=3)
    (spool.root / place).parent.mkdir(parents=True, exist_ok=True)
    write_message(spool.root / place, b"other")

    assert _redeliver(spool, max_receives=3)

    assert _queue(spool, "orders.dead") == ["1"]


@pytest.mark.parametrize("name", ["orders.dead:1", "orders:1"])
def test_a_dead_letter_waits_while_a_producer_publishes_its_id(spool: Spool, name: str) -> None:
    leased = _leased(spool, count=3)
    lock = lock_names(spool, [name])
    assert lock is not None

    with pytest.raises(BlockingIOError):
        _redeliver(spool, max_receives=3)

    assert leased.exists()
    spool.files.close(lock)
    assert _redeliver(spool, max_receives=3)
    assert _queue(spool, "orders.dead") == ["1"]
    again = lock_names(spool, [name])
    assert again is not None
    spool.files.close(again)


def test_a_dead_letter_needs_no_lock_where_nobody_can_have_it(spool: Spool) -> None:
    (spool.root / FORMAT_FILE).unlink(missing_ok=True)
    _leased(spool, count=3)

    assert _redeliver(spool, max_receives=3)

    assert _queue(spool, "orders.dead") == ["1"]


def test_dead_letter_waits_while_its_queue_is_being_deleted(spool: Spool) -> None:
    leased = _leased(spool, count=3)
    (spool.root / "remove" / "orders.dead:.deleting").mkdir()

    with pytest.raises(DeadQueueBeingDeleted):
        _redeliver(spool, max_receives=3)

    assert leased.exists()
    assert _queues(spool) == ["orders"]


def test_dead_letter_waits_while_its_queue_is_deleted_just_then(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased = _leased(spool)

    def delete(*_: Any) -> bool:
        return not begin_deletion(spool, QueueName("orders.dead"))

    monkeypatch.setattr("mq.spool.redelivery.is_taken", delete)
    with pytest.raises(DeadQueueBeingDeleted):
        _redeliver(spool, max_receives=1)

    monkeypatch.undo()
    finish_deletion(spool, QueueName("orders.dead"))
    assert leased.exists()
    assert _redeliver(spool, max_receives=1)
    assert _queue(spool, "orders.dead") == ["1"]


def test_file_without_a_seal_was_never_counted_and_never_dies(spool: Spool) -> None:
    write_message(spool.root / "delay" / "orders:1")

    assert _redeliver(spool, max_receives=1)

    assert _queue(spool, "orders") == ["1"]


@pytest.mark.parametrize("name", ["orders.failed", "orders.dead", "another"])
def test_dead_letters_go_to_the_queue_that_the_settings_name(spool: Spool, name: str) -> None:
    settings = QueueSettings(max_receives=3, dead_letters=QueueName(name))
    _leased(spool, count=3)

    assert _redeliver(spool, settings=settings)

    assert _queue(spool, name) == ["1"]
    assert _queues(spool) == sorted(["orders", name])


def test_a_dead_letter_whose_id_is_taken_there_goes_to_the_dead_queue_of_its_own(
    spool: Spool,
) -> None:
    """Copies have one id, and their readers may share a queue for dead letters."""
    settings = QueueSettings(max_receives=3, dead_letters=QueueName("graves"))
    (spool.root / "queues" / "graves").mkdir()
    first = write_message(spool.root / "queues" / "graves" / "1", b"other")
    _leased(spool, count=3)

    assert _redeliver(spool, settings=settings)
    assert _queues(spool) == ["graves", "orders", "orders.dead"]
    assert (_queue(spool, "orders"), _queue(spool, "orders.dead")) == ([], ["1"])
    assert first.read_bytes() == b"other"

    _leased(spool, count=3)
    assert _redeliver(spool, settings=settings)
    assert (_queue(spool, "orders"), _queue(spool, "orders.dead")) == (["1"], ["1"])


def test_a_limit_of_the_settings_wins_over_that_of_the_flags(spool: Spool) -> None:
    _leased(spool, count=3)
    assert _redeliver(spool, max_receives=3, settings=QueueSettings(max_receives=4))
    assert _queue(spool, "orders") == ["1"]

    _leased(spool, count=9).rename(spool.root / "delay" / "orders:2")
    assert _redeliver(spool, "orders:2", max_receives=3, settings=QueueSettings(max_receives=0))
    assert _queue(spool, "orders") == ["1", "2"]


def test_nothing_is_moved_out_of_dead_letters_whatever_the_settings_say(spool: Spool) -> None:
    (spool.root / "queues" / "orders.dead").mkdir()
    settings = QueueSettings(max_receives=1, dead_letters=QueueName("orders"))
    _leased(spool, "orders.dead", count=9)

    assert _redeliver(spool, "orders.dead:1", settings=settings)

    assert _queue(spool, "orders.dead") == ["1"]


def test_message_does_not_die_beside_a_removed_one_of_its_id_that_a_process_has(
    spool: Spool,
) -> None:
    """That process may be about to move what it finds under the name."""
    (spool.root / "queues" / "orders.dead").mkdir()
    removed = write_message(spool.root / "remove" / "orders.dead:1", b"other")
    _leased(spool, count=3)
    fd = os.open(removed, os.O_RDONLY)
    assert spool.files.lock(fd)

    assert _redeliver(spool, max_receives=3)
    assert _queue(spool, "orders") == ["1"]
    os.close(fd)

    (spool.root / "queues" / "orders" / "1").rename(spool.root / "delay" / "orders:1")
    assert _redeliver(spool, max_receives=3)
    assert _queue(spool, "orders.dead") == ["1"]
