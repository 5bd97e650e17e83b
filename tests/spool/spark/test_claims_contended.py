"""Claims when a driver is stopped between two steps, when a queue is made again or has a claimed id
again, and with names that no driver of MQ gave."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.lifecycle import Actor
from mq.names import MessageId, QueueName
from mq.spool.root import visit_root
from mq.spool.spark.claiming import Claim, Taken
from mq.spool.spark.claims import Group
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, new_id, seal_of, write_message
from tests.support.spark_files import HookedFiles, make_again, start_group
from tests.support.stores import ORDERS

_drivers = count(1)


class StoppingFiles(Files):
    """Stops before a call with such a name, until what else there is to do is done."""

    def __init__(self) -> None:
        super().__init__()
        self.stops_at: str | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def make_folder(self, folder_fd: int | None, name: str, mode: int) -> None:
        self._pass(name)
        super().make_folder(folder_fd, name, mode)

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        super().rename(source_fd, source, target_fd, target)
        self._pass(target)

    def _pass(self, name: str) -> None:
        if self.stops_at is not None and self.stops_at in name:
            self.stops_at = None
            self.meanwhile()


@pytest.fixture
def stopping() -> StoppingFiles:
    return StoppingFiles()


@pytest.fixture
def slow(spool: Spool, stopping: StoppingFiles) -> Iterator[Spool]:
    """The spool of a driver that stops."""
    opened = visit_root(spool.root, stopping, Actor.SPARK)
    yield opened
    opened.close()


def start(spool: Spool) -> Group:
    return start_group(spool, f"driver{next(_drivers)}")


def put(spool: Spool, body: bytes) -> MessageId:
    message_id = new_id()
    write_message(spool.root / "queues/orders" / message_id, body, seal=seal_of(body))
    return message_id


def take(claim: Claim, message_id: MessageId) -> Taken:
    return claim.take(ORDERS, message_id, lambda _: 0)


def ready(spool: Spool) -> list[str]:
    return sorted(spool.names_in_queue(ORDERS))


def test_a_driver_that_stops_while_it_begins_a_batch_cannot_take_from_the_new_one(
    spool: Spool, slow: Spool, stopping: StoppingFiles
) -> None:
    one = put(spool, b"one")
    old, new = start(slow), list[Group]()
    stopping.stops_at, stopping.meanwhile = "1.open.", lambda: new.append(start(spool))

    with pytest.raises(ClaimError, match="another driver has taken over"):
        old.begin(1, 1)

    claim = new[0].begin(1, 1)
    assert take(claim, one) is Taken.YES
    assert claim.seal()
    assert new[0].open_claims() == []


def test_a_driver_that_stops_while_it_takes_over_leaves_the_claims_of_the_next_one(
    spool: Spool, slow: Spool, stopping: StoppingFiles
) -> None:
    one, two = put(spool, b"one"), put(spool, b"two")
    claims: list[Claim] = []

    def take_over() -> None:
        claims.append(start(spool).begin(1, 1))
        assert take(claims[0], one) is Taken.YES

    stopping.stops_at, stopping.meanwhile = "driver.", take_over
    Group(spool, "lake", "none").make()

    assert Group(slow, "lake", "slow").fence() == 0

    assert take(claims[0], two) is Taken.YES
    assert claims[0].seal()


def test_a_driver_that_woke_gives_back_what_it_had_open_and_not_what_the_next_one_has(
    spool: Spool,
) -> None:
    one, two = put(spool, b"one"), put(spool, b"two")
    old, new = start(spool), start(spool)
    claim = new.begin(1, 1)
    assert take(claim, one) is Taken.YES

    assert old.give_back_open() == 0

    assert take(claim, two) is Taken.YES
    assert claim.seal()


def test_a_queue_made_again_gets_no_message_of_the_old_one_back(spool: Spool) -> None:
    old_id = put(spool, b"old")
    assert take(start(spool).begin(1, 1), old_id) is Taken.YES
    [claimed] = (spool.root / "spark/claims/lake").glob("1.open.*/0/*")
    make_again(spool.root / "queues/orders", claimed)

    assert start(spool).open_claims() == []

    assert ready(spool) == []
    assert (spool.root / "remove" / f"orders:{old_id}~2").exists()


def test_a_sealed_batch_is_not_given_back_to_a_queue_made_again(spool: Spool) -> None:
    old_id = put(spool, b"old")
    group = start(spool)
    claim = group.begin(1, 1)
    assert take(claim, old_id) is Taken.YES
    assert claim.seal()
    make_again(
        spool.root / "queues/orders", spool.root / "spark/claims/lake/1/0" / f"orders:{old_id}"
    )

    group.give_back_sealed([1])

    assert ready(spool) == []


@pytest.mark.parametrize("whose", ["queue", "message"])
def test_what_the_times_do_not_prove_old_is_given_back(spool: Spool, whose: str) -> None:
    """The queue changed before it was made: the clock went back. The message was written before it
    was made: the root is a copy."""
    message_id, queue = put(spool, b"one"), spool.root / "queues/orders"
    assert take(start(spool).begin(1, 1), message_id) is Taken.YES
    [claimed] = (spool.root / "spark/claims/lake").glob("1.open.*/0/*")
    make_again(queue, claimed)
    before_ns = time.time_ns() - 3600 * 10**9
    if whose == "queue":
        os.utime(queue, ns=(before_ns, before_ns))
    else:
        os.utime(claimed, ns=(before_ns, before_ns))
        make_again(queue, claimed)

    start(spool)

    assert ready(spool) == [message_id]


def test_an_id_that_the_queue_has_again_does_not_block_its_group(spool: Spool) -> None:
    one, two = put(spool, b"one"), put(spool, b"two")
    assert take(start(spool).begin(1, 1), one) is Taken.YES
    again = spool.root / "queues/orders" / one
    again.write_bytes(b"another of that id")

    new = start(spool)
    claim = new.begin(1, 1)
    assert take(claim, two) is Taken.YES
    assert claim.seal()

    assert again.read_bytes() == b"another of that id"
    again.unlink()
    assert start(spool).open_claims() == []
    assert again.read_bytes() == b"one"


def test_two_batches_of_which_something_stays_block_no_driver(spool: Spool) -> None:
    for _ in range(2):
        message_id = put(spool, b"one")
        assert take(start(spool).begin(1, 1), message_id) is Taken.YES
        (spool.root / "queues/orders" / message_id).write_bytes(b"another of that id")

    new = start(spool)

    assert len(new.open_claims()) == 2
    assert new.begin(1, 1).seal()


def test_the_same_message_in_the_queue_again_is_there_once(spool: Spool) -> None:
    one = put(spool, b"one")
    assert take(start(spool).begin(1, 1), one) is Taken.YES
    write_message(spool.root / "queues/orders" / one, b"one", seal=seal_of(b"one"))

    assert start(spool).open_claims() == []

    assert ready(spool) == [one]
    assert (spool.root / "remove" / f"orders:{one}").exists()


@pytest.mark.parametrize("name", ["²", "٣", "01", "3.open.a²", "x.open.y", "\udcff"])
def test_a_name_that_no_driver_gave_is_nobodys_batch(spool: Spool, name: str) -> None:
    one = put(spool, b"one")
    group = start(spool)
    claim = group.begin(1, 1)
    take(claim, one)
    (spool.root / "spark/claims/lake" / name).mkdir()
    (spool.root / "spark/claims/lake" / name / "²").mkdir()
    (spool.root / "spark/claims/lake/1.open.x").mkdir()

    assert claim.seal()
    (spool.root / "spark/claims/lake/1/²").mkdir()

    assert start(spool).sealed() == [1]
    assert group.parts(1) == ["claims/lake/1/0"]
    assert (spool.root / "spark/claims/lake" / name).is_dir()


@pytest.mark.parametrize("marker", ["floor.²", "floor.x", "query.a.b"])
def test_a_damaged_marker_is_an_error_that_names_it(spool: Spool, marker: str) -> None:
    group = start(spool)
    kind = marker.partition(".")[0]
    [path] = (spool.root / "spark/claims/lake").glob(f"{kind}.*")
    path.rename(path.with_name(marker))

    with pytest.raises(ClaimError, match=f"a {kind}\\.\\* that does not end with a number"):
        group.floor() if kind == "floor" else group.owner()


def test_what_a_dead_driver_had_not_synced_is_synced_before_its_batch_goes(spool: Spool) -> None:
    """With it goes what the sink has written, which is durable by that sync."""
    one, group = put(spool, b"one"), start(spool)
    claim = group.begin(1, 1)
    assert take(claim, one) is Taken.YES
    assert claim.seal()
    (spool.root / "spark/claims/lake/floor.0").rename(spool.root / "spark/claims/lake/floor.1")
    files, steps = WatchedFiles(), list[str]()
    files.before["sync_file_system"] = lambda *_: steps.append("sync")
    files.before["rename"] = lambda *names: steps.append(names[-1])
    opened = visit_root(spool.root, files, Actor.SPARK)

    Group(opened, "lake", "next").finish(1, archives=False)

    assert steps == ["sync", "lake:.1"]
    opened.close()


def test_what_is_given_back_waits_for_its_own_queue_alone(spool: Spool, files: HookedFiles) -> None:
    (spool.root / "queues/bills").mkdir()
    claim = Group(spool, "lake", "d1")
    claim.make()
    claim.fence()
    opened = claim.begin(1, 1)
    for queue in (QueueName("bills"), ORDERS):
        write_message(spool.root / "queues" / queue / "1", seal=seal_of(b"body"))
        assert opened.take(queue, MessageId("1"), lambda _: 0) is Taken.YES
    files.shut = "bills"

    with pytest.raises(PermissionError):
        Group(spool, "lake", "d2").fence()

    assert names_in(spool.root / "queues/orders") == ["1"]
    files.shut = ""
    assert Group(spool, "lake", "d3").fence() == 1
    assert names_in(spool.root / "queues/bills") == ["1"]
