"""Staging: what one attempt of a task writes, before anything of it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mq.errors import ClaimError, InvalidRequest, QueueNotFound
from mq.names import MessageId, QueueName
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit, give_up_batch
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.spark_files import visit_new_root
from tests.support.stores import ORDERS


def test_one_attempt_cannot_use_an_id_twice(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"one", MessageId("a"))])

    with pytest.raises(InvalidRequest, match="two rows for queue orders have the id a"):
        attempt.add([StagedMessage(ORDERS, b"two", MessageId("a"))])
    attempt.give_up()


def test_a_queue_that_does_not_exist_is_named(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "query"), 0, "0-1")

    with pytest.raises(QueueNotFound, match="there is no queue refunds"):
        attempt.add([StagedMessage(QueueName("refunds"), b"one")])
    attempt.give_up()


def test_an_attempt_that_was_given_up_leaves_nothing_in_the_stage(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "query"), 0, "0-1")
    attempt.add([StagedMessage(ORDERS, b"one")])

    attempt.give_up()

    assert list((spool.root / "spark/stage").rglob("*:*")) == []


def test_a_task_that_stages_while_its_batch_is_committed_by_others_says_so(spool: Spool) -> None:
    late = [Attempt(Job(spool, "query"), 0, name) for name in ("0-7", "0-8")]
    winner = Attempt(Job(spool, "query"), 0, "0-1")
    winner.add([StagedMessage(ORDERS, b"one")])
    winner.seal()
    commit(Job(spool, "query"), 0, ["0-1"])

    with pytest.raises(ClaimError, match=r"0/0-7\.open was given up: another driver has committed"):
        late[0].add([StagedMessage(ORDERS, b"one")])
    with pytest.raises(ClaimError, match=r"0/0-8\.open was given up"):
        late[1].seal()
    assert [path.read_bytes() for path in (spool.root / "queues/orders").iterdir()] == [b"one"]


@pytest.mark.parametrize("made", ["stage/query/2", "stage/query/2/0-1.open"])
def test_an_attempt_begins_while_a_sweep_clears_earlier_batches_away(root: Path, made: str) -> None:
    files = WatchedFiles()
    spool = visit_new_root(root, files)

    def sweep_first(_: object, name: str, *__: Any) -> None:
        if name == made:
            files.before.clear()
            Job(spool, "query").clear_stage(1)
            Job(spool, "query").clear_stage(2)

    files.before["make_folder"] = sweep_first

    attempt = Attempt(Job(spool, "query"), 2, "0-1")
    attempt.add([StagedMessage(ORDERS, b"one")])
    attempt.seal()

    assert commit(Job(spool, "query"), 2, ["0-1"]) == 2
    assert [path.read_bytes() for path in (root / "queues/orders").iterdir()] == [b"one"]
    spool.close()


def test_an_attempt_that_is_given_up_as_it_begins_says_so(root: Path) -> None:
    files = WatchedFiles()
    spool = visit_new_root(root, files)

    def commit_a_later_batch(_: object, name: str, *__: Any) -> None:
        if name == "stage/query/2/0-1.open":
            files.before.clear()
            give_up_batch(Job(spool, "query"), 2)

    files.before["open_folder"] = commit_a_later_batch

    with pytest.raises(ClaimError, match=r"0-1\.open was given up: another driver has committed"):
        Attempt(Job(spool, "query"), 2, "0-1")
    spool.close()
