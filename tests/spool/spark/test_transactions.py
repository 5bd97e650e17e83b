"""Transactions of Spark: what was staged counts once or never, whichever process finishes it."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest

from mq.lifecycle import Folder
from mq.names import MessageId
from mq.spool.sets import hold_set
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import STAGE_KEEP_SECONDS, commit, finish
from mq.spool.spool import Spool
from tests.support.faults import CountedFiles
from tests.support.messages import SECOND_NS, read_seal, seal_of, write_message
from tests.support.spark_files import Cut, bodies, dies, sweep
from tests.support.spark_files import stage as stage_as
from tests.support.stores import ORDERS

stage = partial(stage_as, job="query", batch=0)


@pytest.fixture
def files() -> CountedFiles:
    """The files of a driver that dies at a rename."""
    return CountedFiles({"rename"}, dies)


def staged(spool: Spool) -> list[str]:
    return sorted(path.name for path in (spool.root / "spark/stage").rglob("*:*"))


def test_winners_come_to_their_queue_in_order_and_losers_do_not(spool: Spool) -> None:
    winner = stage(spool, "0-1", b"one", b"two")
    stage(spool, "0-2", b"one", b"two")

    commit(Job(spool, "query"), 0, [winner])

    assert bodies(spool.root) == [b"one", b"two"]
    assert not (spool.root / "spark/stage/query").exists()
    assert len(list((spool.root / "remove").glob("spark:.*/orders:*"))) == 2


def test_what_is_staged_counts_for_nobody_before_the_commit(spool: Spool) -> None:
    stage(spool, "0-1", b"one")

    sweep(spool.root)

    assert bodies(spool.root) == []
    assert len(staged(spool)) == 1


def test_a_batch_that_is_tried_again_is_adopted(spool: Spool) -> None:
    commit(Job(spool, "query"), 0, [stage(spool, "0-1", b"first try")])

    commit(Job(spool, "query"), 0, [stage(spool, "0-9", b"second try")])

    assert bodies(spool.root) == [b"first try"]
    assert staged(spool) == []


@pytest.mark.parametrize("comes_first", ["its own commit", "a server's sweep"])
def test_a_driver_that_was_thought_dead_adds_nothing_to_a_batch_long_done(
    spool: Spool, comes_first: str
) -> None:
    for batch, body in enumerate((b"one", b"two")):
        commit(Job(spool, "query"), batch, [stage(spool, f"0-{batch}", body, batch=batch)])
    late = stage(spool, "0-9", b"one", batch=0)
    assert not (spool.root / "spark/txn/query/0").exists()

    if comes_first == "a server's sweep":
        (spool.root / "spark/txn/query/0").write_text(f"{late}\n")
        sweep(spool.root)
    commit(Job(spool, "query"), 0, [late])

    assert bodies(spool.root) == [b"one", b"two"]
    assert staged(spool) == []
    assert [path.name for path in (spool.root / "spark/txn/query").iterdir()] == ["1"]


@pytest.mark.parametrize("renames", range(5))
def test_a_crash_of_the_driver_in_the_middle_is_finished_by_a_sweep(
    spool: Spool, files: CountedFiles, renames: int
) -> None:
    winners = [stage(spool, "0-1", b"one", b"two"), stage(spool, "1-2", b"three")]
    stage(spool, "1-3", b"three")
    files.calls_left = renames

    try:
        commit(Job(spool, "query"), 0, winners)
    except Cut:
        pass
    files.calls_left = None
    sweep(spool.root)

    assert sorted(bodies(spool.root)) == [b"one", b"three", b"two"]
    assert staged(spool) == []


def test_a_crash_in_the_middle_is_finished_by_the_next_try(
    spool: Spool, files: CountedFiles
) -> None:
    winner = stage(spool, "0-1", b"one", b"two")
    files.calls_left = 1
    with pytest.raises(Cut):
        commit(Job(spool, "query"), 0, [winner])
    files.calls_left = None

    commit(Job(spool, "query"), 0, [])

    assert bodies(spool.root) == [b"one", b"two"]


def test_what_somebody_rolls_forward_is_left_to_them(spool: Spool) -> None:
    winner = stage(spool, "0-1", b"one")
    path = f"stage/query/0/{winner}"
    held = hold_set(spool, Folder.SPARK, path)
    (spool.root / "spark/txn/query/0").write_text(f"{winner}\n")

    assert finish(Job(spool, "query"), 0, 0) is None
    assert len(staged(spool)) == 1

    assert isinstance(held, int)
    os.close(held)
    assert finish(Job(spool, "query"), 0, 0) == 1


def test_a_later_batch_sweeps_what_is_left_of_earlier_ones(spool: Spool) -> None:
    commit(Job(spool, "query"), 0, [stage(spool, "0-1", b"one")])
    stage(spool, "0-2", b"late loser", batch=0)

    commit(Job(spool, "query"), 1, [stage(spool, "0-3", b"two", batch=1)])

    assert staged(spool) == []
    assert os.listdir(spool.root / "spark/txn/query") == ["1"]
    assert Job(spool, "query").last_committed() == 1


def test_jobs_do_not_touch_each_other(spool: Spool) -> None:
    stage(spool, "0-1", b"other", job="other", batch=0)

    commit(Job(spool, "query"), 7, [stage(spool, "0-2", b"one", batch=7)])

    assert len(staged(spool)) == 1
    assert not Job(spool, "other").is_committed(0)


def test_a_write_of_its_own_leaves_nothing_behind(spool: Spool) -> None:
    commit(Job(spool, ".job"), 0, [stage(spool, "0-1", b"one", job=".job")])

    assert bodies(spool.root) == [b"one"]
    assert os.listdir(spool.root / "spark/txn") == []
    assert os.listdir(spool.root / "spark/stage") == []


def test_what_was_never_committed_is_given_up_after_a_day(spool: Spool) -> None:
    stage(spool, "0-1", b"one")
    batch = spool.root / "spark/stage/query/0"
    old_ns = time.time_ns() - (STAGE_KEEP_SECONDS + 60) * SECOND_NS
    os.utime(batch, ns=(old_ns, old_ns))

    sweep(spool.root)

    assert staged(spool) == []
    assert bodies(spool.root) == []


def test_a_delayed_message_waits_in_delay(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"later", MessageId("a"), delay_seconds=3600)])
    attempt.seal()

    commit(Job(spool, "query"), 0, ["0-1"])

    [path] = (spool.root / "delay").iterdir()
    assert path.name == "orders:a"
    assert 3500 < path.stat().st_mtime - time.time() <= 3601
    assert path.stat().st_mtime_ns > path.stat().st_ctime_ns


def test_a_delay_that_is_over_at_the_commit_delays_nothing(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"soon", delay_seconds=0.001)])
    attempt.seal()
    time.sleep(0.002)

    commit(Job(spool, "query"), 0, ["0-1"])

    assert bodies(spool.root) == [b"soon"]


def test_a_message_has_its_seal_and_its_type(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"one", MessageId("a"), "text/plain")])
    attempt.seal()
    commit(Job(spool, "query"), 0, ["0-1"])

    path = spool.root / "queues/orders/a"
    assert read_seal(path)._replace(published_ns=0) == seal_of(b"one")
    assert os.getxattr(path, "user.mime_type") == b"text/plain"


def test_a_queue_that_was_deleted_meanwhile_takes_its_messages_with_it(spool: Spool) -> None:
    winner = stage(spool, "0-1", b"one")
    (spool.root / "queues/orders").rmdir()

    commit(Job(spool, "query"), 0, [winner])

    assert len(list((spool.root / "remove").glob("orders:*"))) == 1
    assert staged(spool) == []


@pytest.mark.parametrize(("there", "folder"), [(b"mine", "remove"), (b"another", "corrupt")])
def test_an_id_that_the_queue_has_is_not_written_again(
    spool: Spool, there: bytes, folder: str
) -> None:
    write_message(spool.root / "queues/orders/a", there, seal=seal_of(there))
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"mine", MessageId("a"))])
    attempt.seal()

    commit(Job(spool, "query"), 0, ["0-1"])

    assert bodies(spool.root) == [there]
    assert (spool.root / folder / "orders:a").read_bytes() == b"mine"


def test_what_is_set_aside_is_reported_to_whom_the_spool_was_given(spool: Spool) -> None:
    told: list[tuple[str, str]] = []
    spool.report_left = lambda name, why: told.append((name, why))
    write_message(spool.root / "queues/orders/a", b"another", seal=seal_of(b"another"))
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"mine", MessageId("a"))])
    attempt.seal()

    commit(Job(spool, "query"), 0, ["0-1"])

    assert told == [("corrupt/orders:a", "its queue has another message of that id")]
