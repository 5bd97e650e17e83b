"""Where a message is: no place is passed over, for one id and for many at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.finder import Finder, is_taken, queue_of_path
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.spark.finished import DoneBatches
from mq.spool.spool import Spool

ORDERS, DEAD = QueueName("orders"), QueueName("orders.dead")
HERE, ELSEWHERE = MessageId("here"), MessageId("elsewhere")

PLACES = [
    "new/orders:here",
    "new/.orders:0123/orders:here",
    "queues/orders/here",
    "delay/orders:here",
    "remove/orders:here",
    "spark/claims/group/1/orders:here",
    "spark/claims/group/1/part/orders:here",
    "queues/orders.dead/here",
    "delay/orders.dead:here",
    "remove/orders.dead:here",
    "spark/claims/group/1/orders.dead:here",
]

OTHERS = [
    "new/.orders:0123.open/orders:here",
    "new/others:here",
    "queues/others/here",
    "delay/orders:elsewhere",
    "remove/orders:here~2",
    "corrupt/orders:here",
]


def put(spool: Spool, path: str) -> None:
    file = Path(spool.root / path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


def finder(spool: Spool) -> Finder:
    (spool.root / "queues" / DEAD).mkdir(exist_ok=True)
    return Finder(spool, DoneBatches(spool), ORDERS, [DEAD])


@pytest.mark.parametrize("place", PLACES)
def test_a_message_is_found_at_each_place(spool: Spool, orders: Path, place: str) -> None:
    put(spool, place)

    assert set(finder(spool).find(HERE)) == {place}
    assert finder(spool).missing([ELSEWHERE, HERE]) == {ELSEWHERE}


def test_a_batch_that_has_other_ids_is_not_looked_at(spool: Spool, orders: Path) -> None:
    put(spool, "new/.orders:0123/orders:here")
    put(spool, "new/.orders:4567/orders:elsewhere")

    some = Finder(spool, DoneBatches(spool), ORDERS, [DEAD], {".orders:0123"})

    assert set(some.find(HERE)) == set()
    assert some.missing([ELSEWHERE, HERE]) == {HERE}


@pytest.mark.parametrize("place", OTHERS)
def test_what_is_no_message_of_that_id_is_not_found(spool: Spool, orders: Path, place: str) -> None:
    put(spool, place)

    assert list(finder(spool).find(HERE)) == []
    assert HERE in finder(spool).missing([ELSEWHERE, HERE])


def test_a_message_that_spark_has_done_is_found(spool: Spool, orders: Path) -> None:
    """Its batch is listed once the floor has passed it."""
    put(spool, "spark/claims/group/floor.1")
    put(spool, "remove/group:.1/part/orders:here")

    assert list(finder(spool).find(HERE)) == ["remove/group:.1/part/orders:here"]
    assert finder(spool).missing([ELSEWHERE, HERE]) == {ELSEWHERE}


def test_all_are_missing_where_nothing_is(spool: Spool, orders: Path) -> None:
    assert finder(spool).missing([HERE, ELSEWHERE]) == {HERE, ELSEWHERE}
    assert finder(spool).missing([]) == set()


BURIED = [each.replace("orders.dead", "failed") for each in PLACES if "orders.dead" in each]


@pytest.mark.parametrize("place", BURIED)
def test_a_dead_letter_is_found_if_it_came_from_this_queue(
    spool: Spool, orders: Path, place: str
) -> None:
    found = Finder(spool, DoneBatches(spool), ORDERS, [DEAD, QueueName("failed")])
    (spool.root / "queues/failed").mkdir()
    for burial in (None, b"others max-receives", b"failed max-receives", b"orders max-receives"):
        put(spool, place)
        if burial is not None:
            os.setxattr(spool.root / place, DEAD_ATTRIBUTE, burial)

        is_ours = burial == b"orders max-receives"
        assert set(found.find(HERE)) == ({place} if is_ours else set())
        assert found.missing([ELSEWHERE, HERE]) == ({ELSEWHERE} if is_ours else {ELSEWHERE, HERE})


def test_what_another_queue_has_sent_to_the_usual_dead_letters_is_not_found(
    spool: Spool, orders: Path
) -> None:
    put(spool, "queues/orders.dead/here")
    os.setxattr(spool.root / "queues/orders.dead/here", DEAD_ATTRIBUTE, b"others max-receives")

    assert list(finder(spool).find(HERE)) == []
    assert finder(spool).missing([HERE]) == {HERE}


@pytest.mark.parametrize(
    "place",
    [*PLACES, "remove/orders:.purged/1/here", "remove/orders:.purged/1.open/orders:here",
     "remove/group:.1/part/orders:here", "spark/archive/group/1/part/orders:here"],
)  # fmt: skip
def test_a_path_tells_its_queue(place: str) -> None:
    assert queue_of_path(place) == ("orders.dead" if "orders.dead" in place else "orders")


def taken(spool: Spool, inode: int = 0) -> bool:
    return is_taken(spool.files, spool.queues.fd, ORDERS, HERE, inode)


@pytest.mark.parametrize("place", PLACES)
def test_a_living_message_of_the_queue_itself_takes_its_id(
    spool: Spool, orders: Path, place: str
) -> None:
    put(spool, place)

    assert taken(spool) == ("orders.dead" not in place and not place.startswith("remove/"))
    assert not taken(spool, (spool.root / place).stat().st_ino)


@pytest.mark.parametrize("place", OTHERS)
def test_what_is_no_message_of_that_id_takes_none(spool: Spool, orders: Path, place: str) -> None:
    put(spool, place)

    assert not taken(spool)


LOOKS: dict[str, Callable[[Spool], object]] = {
    "one": lambda spool: any(finder(spool).find(HERE)),
    "many": lambda spool: HERE not in finder(spool).missing([HERE, ELSEWHERE]),
    "of a visitor": lambda spool: is_taken(spool.files, spool.fd(Folder.QUEUES), ORDERS, HERE, 0),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_message_whose_claim_is_sealed_during_the_look_is_found(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    put(spool, "spark/claims/group/1.open.t1-driver/part/orders:here")
    group = spool.root / "spark/claims/group"
    exists = Files.exists

    def seal_first(files: Files, folder_fd: int | None, name: str) -> bool:
        if ".open." in name and (group / "1.open.t1-driver").is_dir():
            (group / "1.open.t1-driver").rename(group / "1")
        return exists(files, folder_fd, name)

    monkeypatch.setattr(Files, "exists", seal_first)

    assert LOOKS[look](spool)
    assert (group / "1").is_dir()
