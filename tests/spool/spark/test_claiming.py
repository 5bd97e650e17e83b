"""What a claim passes over, and a batch that is not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.config import MAX_SPARK_MESSAGE_BYTES
from mq.disk.files import Files
from mq.errors import ClaimError
from mq.spool.spark.claiming import Taken
from mq.spool.spark.claims import Group
from mq.spool.spark.group_owner import Owner
from tests.support.faults import WatchedFiles
from tests.support.messages import new_id, seal_of, write_message
from tests.support.spark_files import start_group, visit_new_root
from tests.support.stores import ORDERS


@pytest.mark.parametrize("call", ["open_message", "rename"])
@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES, errno.EUCLEAN])
def test_a_file_that_cannot_be_opened_or_moved_costs_no_other_message(
    root: Path, call: str, code: int
) -> None:
    files = WatchedFiles()
    spool = visit_new_root(root, files)
    first, second = sorted([new_id(), new_id()])
    for message_id in (first, second):
        write_message(root / "queues/orders" / message_id, b"body", seal=seal_of(b"body"))
    group = start_group(spool)
    claim = group.begin(1, 1)
    files.fail(call, code=code)

    taken = claim.take_many([(ORDERS, first), (ORDERS, second)], lambda _: 0)

    assert taken == [Taken.LOST, Taken.YES]
    assert spool.names_in_queue(ORDERS) == [first]
    spool.close()


def test_a_message_that_spark_cannot_hold_stays_in_its_queue_and_is_reported(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = visit_new_root(root, Files())
    long, short = sorted([new_id(), new_id()])
    for message_id, size in ((long, MAX_SPARK_MESSAGE_BYTES + 1), (short, 1)):
        (root / "queues/orders" / message_id).touch()
        os.truncate(root / "queues/orders" / message_id, size)
    group = start_group(spool)

    claim = group.begin(1, 1)
    taken = claim.take_many([(ORDERS, long), (ORDERS, short)], lambda _: 0)

    assert taken == [Taken.TOO_LONG, Taken.YES]
    assert spool.names_in_queue(ORDERS) == [long]
    assert f"queues/orders/{long}: it has more than 1024 MiB" in caplog.text
    spool.close()


def test_a_checkpoint_of_another_group_or_root_is_told_from_a_batch_that_was_taken_away(
    root: Path,
) -> None:
    spool = visit_new_root(root, Files())
    group = Group(spool, "lake", "driver")
    group.make()

    with pytest.raises(ClaimError, match="or the checkpoint is of another group or root"):
        group.finish(3, archives=False)

    group.take_for(Owner("query-1", 0), takes_over=False)
    with pytest.raises(ClaimError) as found:
        group.finish(3, archives=False)
    assert "or the checkpoint" not in str(found.value)
    spool.close()
