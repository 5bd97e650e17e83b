"""To which query a group belongs, and who may read with it."""

from __future__ import annotations

import pytest

from mq.errors import ClaimError
from mq.spool.spark.claims import Group
from mq.spool.spark.group_owner import NOBODY, UNNAMED, Owner
from mq.spool.spool import Spool


@pytest.fixture
def group(spool: Spool) -> Group:
    made = Group(spool, "lake", "driver")
    made.make()
    return made


def test_a_group_belongs_to_the_first_query_that_reads(group: Group) -> None:
    assert group.owner() == Owner(NOBODY, 0)

    group.take_for(Owner("query-1", 0), takes_over=False)
    group.take_for(Owner("query-1", 4), takes_over=False)

    assert group.owner() == Owner("query-1", 0)
    with pytest.raises(ClaimError, match="group lake belongs to query query-1"):
        group.take_for(Owner("query-2", 0), takes_over=False)


def test_a_query_can_take_a_group_over(group: Group) -> None:
    group.take_for(Owner("query-1", 0), takes_over=False)

    group.take_for(Owner("query-2", 3), takes_over=True)

    assert group.owner() == Owner("query-2", 3)
    with pytest.raises(ClaimError):
        group.take_for(Owner("query-1", 0), takes_over=False)


def test_tasks_that_do_not_know_their_query_are_let_in_and_leave_the_owner(group: Group) -> None:
    group.take_for(Owner(UNNAMED, 0), takes_over=False)
    group.take_for(Owner(UNNAMED, 2), takes_over=False)
    assert group.owner() == Owner(UNNAMED, 0)

    group.take_for(Owner("query-1", 2), takes_over=False)
    group.take_for(Owner(UNNAMED, 3), takes_over=False)
    assert group.owner() == Owner("query-1", 2)
