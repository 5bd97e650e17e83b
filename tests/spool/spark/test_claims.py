"""Claims: batches that are sealed once, given back whole, and finished in order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count

import pytest

from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.names import MessageId
from mq.spool.message.held import Held, hold
from mq.spool.spark.claiming import Claim, Taken
from mq.spool.spark.claims import Group
from mq.spool.spark.finished import DoneBatches
from mq.spool.spark.group_owner import Owner
from mq.spool.spool import Spool
from tests.support.messages import new_id, seal_of, write_message
from tests.support.spark_files import start_group
from tests.support.stores import ORDERS

_drivers = count(1)


@pytest.fixture
def start(spool: Spool) -> Callable[[], Group]:
    """A driver of the group `lake` that has fenced off the one before."""
    return lambda: start_group(spool, f"driver{next(_drivers)}")


def put(spool: Spool, *bodies: bytes) -> list[MessageId]:
    ids = []
    for body in bodies:
        ids.append(new_id())
        write_message(spool.root / "queues/orders" / ids[-1], body, seal=seal_of(body))
    return sorted(ids)


def take(claim: Claim, message_id: MessageId, part: int | None = 0) -> Taken:
    return claim.take(ORDERS, message_id, lambda _: part)


def seal_batch(group: Group, batch: int, *ids: MessageId) -> None:
    claim = group.begin(batch, 1)
    for message_id in ids:
        assert take(claim, message_id) is Taken.YES
    assert claim.seal()


def claimed(spool: Spool) -> list[str]:
    """Below the group's folder; markers left out."""
    top = spool.root / "spark/claims/lake"
    return sorted(str(path.relative_to(top)) for path in top.glob("*/*/*"))


def ready(spool: Spool) -> list[str]:
    return sorted(spool.names_in_queue(ORDERS))


def test_a_claim_moves_messages_out_of_their_queue_and_the_seal_makes_them_a_batch(
    spool: Spool, start: Callable[[], Group]
) -> None:
    one, two = put(spool, b"one", b"two")
    group = start()

    claim = group.begin(1, 2)
    assert take(claim, one, 0) is Taken.YES
    assert take(claim, two, 1) is Taken.YES
    assert not group.is_sealed(1)
    assert claim.seal()

    assert ready(spool) == []
    assert claimed(spool) == [f"1/0/orders:{one}", f"1/1/orders:{two}"]
    assert group.parts(1) == ["claims/lake/1/0", "claims/lake/1/1"]


def test_a_part_without_messages_is_no_part(spool: Spool, start: Callable[[], Group]) -> None:
    [one] = put(spool, b"one")
    group = start()
    claim = group.begin(1, 3)
    take(claim, one, 2)
    claim.seal()

    assert group.parts(1) == ["claims/lake/1/2"]


def test_a_message_that_somebody_holds_or_that_is_gone_is_passed_over(
    spool: Spool, start: Callable[[], Group]
) -> None:
    held_id, gone = put(spool, b"one", b"two")
    (spool.root / "queues/orders" / gone).unlink()
    held = hold(spool.files, spool.fd(Folder.QUEUES), f"orders/{held_id}")
    claim = start().begin(1, 1)

    assert take(claim, held_id) is Taken.LOST
    assert take(claim, gone) is Taken.LOST

    assert ready(spool) == [held_id]
    assert isinstance(held, Held)
    held.close()


def test_a_message_of_the_wrong_length_is_set_aside(
    spool: Spool, start: Callable[[], Group]
) -> None:
    [one] = put(spool, b"one")
    (spool.root / "queues/orders" / one).write_bytes(b"on")

    assert take(start().begin(1, 1), one) is Taken.LOST

    assert (spool.root / "corrupt" / f"orders:{one}").exists()


def test_a_new_driver_gives_back_what_the_one_before_had_open(
    spool: Spool, start: Callable[[], Group]
) -> None:
    one, two = put(spool, b"one", b"two")
    claim = start().begin(1, 2)
    take(claim, one, 0)
    take(claim, two, 1)

    new = start()

    assert ready(spool) == [one, two]
    assert (claimed(spool), new.open_claims()) == ([], [])


def test_a_driver_that_was_fenced_off_can_do_nothing_more(
    spool: Spool, start: Callable[[], Group]
) -> None:
    one, two = put(spool, b"one", b"two")
    old = start()
    claim = old.begin(1, 1)
    take(claim, one)
    start()

    with pytest.raises(ClaimError, match="another driver has taken over"):
        take(claim, two)
    with pytest.raises(ClaimError, match="another driver has taken over"):
        claim.seal()
    with pytest.raises(ClaimError, match="another driver has taken over"):
        old.begin(1, 1)

    assert ready(spool) == [one, two]


def test_of_two_drivers_one_seals_the_batch(spool: Spool, start: Callable[[], Group]) -> None:
    one, two = put(spool, b"one", b"two")
    old, new = start(), start()
    slow = Claim(spool, "claims/lake/1.open.slow", "claims/lake/1", old._fenced)
    (spool.root / "spark/claims/lake/1.open.slow/0").mkdir(parents=True)
    take(slow, two)
    seal_batch(new, 1, one)

    assert not slow.seal()

    assert new.give_back_open() == 1
    assert (claimed(spool), ready(spool)) == ([f"1/0/orders:{one}"], [two])


def test_what_is_given_back_of_a_deleted_queue_is_removed(
    spool: Spool, start: Callable[[], Group]
) -> None:
    [one] = put(spool, b"one")
    take(start().begin(1, 1), one)
    (spool.root / "queues/orders").rmdir()

    new = start()

    assert (spool.root / "remove" / f"orders:{one}~2").exists()
    assert new.open_claims() == []


def test_what_cannot_be_given_back_stays_and_replaces_nothing(
    spool: Spool, start: Callable[[], Group]
) -> None:
    [one] = put(spool, b"one")
    take(start().begin(1, 1), one)
    (spool.root / "queues/orders" / one).write_bytes(b"another of that id")

    new = start()

    assert len(new.open_claims()) == 1
    assert (spool.root / "queues/orders" / one).read_bytes() == b"another of that id"


def test_a_batch_that_is_done_goes_with_all_before_it(
    spool: Spool, start: Callable[[], Group]
) -> None:
    one, two, three = put(spool, b"one", b"two", b"three")
    group = start()
    for batch, message_id in enumerate((one, two, three), start=1):
        seal_batch(group, batch, message_id)

    group.finish(2, archives=False)

    assert (group.floor(), group.sealed()) == (2, [3])
    removed = (spool.root / "remove").glob("lake:.*/0/*")
    assert sorted(path.name for path in removed) == [f"orders:{one}", f"orders:{two}"]


def test_a_batch_that_is_done_can_be_kept(spool: Spool, start: Callable[[], Group]) -> None:
    [one] = put(spool, b"one")
    group = start()
    seal_batch(group, 1, one)

    group.finish(1, archives=True)
    group.finish(1, archives=True)

    assert (spool.root / "spark/archive/lake/1/0" / f"orders:{one}").read_bytes() == b"one"


def test_a_group_that_is_made_anew_keeps_its_batches_beside_those_of_the_one_before(
    spool: Spool, start: Callable[[], Group]
) -> None:
    ids = put(spool, b"one", b"two")
    for message_id in ids:
        group = start()
        seal_batch(group, 1, message_id)
        group.finish(1, archives=True)
        shutil.rmtree(spool.root / "spark/claims/lake")

    kept = (spool.root / "spark/archive/lake").glob("*/0/*")
    assert sorted((path.parts[-3], path.name) for path in kept) == [
        ("1", f"orders:{ids[0]}"), ("1~2", f"orders:{ids[1]}"),
    ]  # fmt: skip


def test_a_crash_between_the_floor_and_the_removal_is_finished(
    spool: Spool, start: Callable[[], Group]
) -> None:
    [one] = put(spool, b"one")
    group = start()
    seal_batch(group, 1, one)
    (spool.root / "spark/claims/lake/floor.0").rename(spool.root / "spark/claims/lake/floor.1")

    start().finish(1, archives=False)

    assert group.sealed() == []


def test_of_two_floors_that_a_crash_has_left_the_later_one_counts(
    spool: Spool, start: Callable[[], Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a change is a link and an unlink, it can stop between them."""
    one, two, three = put(spool, b"one", b"two", b"three")
    group, top = start(), spool.root / "spark/claims/lake"
    for batch, message_id in enumerate((one, two, three), start=1):
        seal_batch(group, batch, message_id)
    group.finish(1, archives=False)
    (top / "floor.0").hardlink_to(top / "floor.1")
    list_names, list_folder = Spool.names_below, os.listdir
    monkeypatch.setattr(Spool, "names_below", lambda *where: sorted(list_names(*where)))
    monkeypatch.setattr(os, "listdir", lambda where: sorted(list_folder(where)))

    assert group.floor() == 1
    group.finish(2, archives=False)

    assert (group.floor(), group.sealed()) == (2, [3])
    done = DoneBatches(spool)
    assert [*done.paths(f"orders:{two}")] == [f"remove/lake:.2/0/orders:{two}"]


def test_a_batch_that_was_taken_away_is_an_error_and_never_empty(
    spool: Spool, start: Callable[[], Group]
) -> None:
    [one] = put(spool, b"one")
    group = start()
    seal_batch(group, 1, one)
    assert group.give_back_sealed([1]) == 1

    with pytest.raises(ClaimError, match="batch 1 is not there"):
        group.parts(1)
    with pytest.raises(ClaimError, match="batch 1 is not there"):
        group.finish(1, archives=False)

    assert group.floor() == 0
    assert ready(spool) == [one]


def test_making_a_group_that_is_there_changes_nothing(
    spool: Spool, start: Callable[[], Group]
) -> None:
    start().take_for(Owner("query-1", 0), takes_over=False)
    before = sorted(spool.names_below(Folder.SPARK, "claims/lake"))

    Group(spool, "lake", "other").make()

    assert sorted(spool.names_below(Folder.SPARK, "claims/lake")) == before
    assert spool.names_below(Folder.SPARK, "claims") == ["lake"]
