"""Two drivers of one group at work together, and what a crash leaves of who is the driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark.claims import Group
from mq.spool.spool import Spool
from tests.support.spark_files import start_group


class InterruptedFiles(Files):
    """Does what a test wants before the first rename of a marker of floors, or before the first
    look at a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None
        self.meanwhile_at_look: Callable[[], None] | None = None

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        if "/floor." in source and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().rename(source_fd, source, target_fd, target)

    def status_of(self, folder_fd: int, name: str) -> os.stat_result:
        if name == "claims/lake/1" and self.meanwhile_at_look is not None:
            meanwhile, self.meanwhile_at_look = self.meanwhile_at_look, None
            meanwhile()
        return super().status_of(folder_fd, name)


@pytest.fixture
def interrupted() -> InterruptedFiles:
    return InterruptedFiles()


@pytest.fixture
def slow(spool: Spool, interrupted: InterruptedFiles) -> Iterator[Group]:
    """The group for a driver that is interrupted."""
    opened = visit_root(spool.root, interrupted, Actor.SPARK)
    yield Group(opened, "lake", "slow")
    opened.close()


def test_two_drivers_that_finish_batches_together_finish_all_of_them(
    spool: Spool, slow: Group, interrupted: InterruptedFiles
) -> None:
    group = start_group(spool)
    assert [group.begin(batch, 1).seal() for batch in (1, 2)] == [True, True]
    interrupted.meanwhile = lambda: group.finish(1, archives=False)

    slow.finish(2, archives=False)

    assert (group.floor(), group.sealed()) == (2, [])
    group.finish(2, archives=False)


def test_a_batch_that_another_driver_has_just_finished_is_not_missing(
    spool: Spool, slow: Group, interrupted: InterruptedFiles
) -> None:
    group = start_group(spool)
    assert [group.begin(batch, 1).seal() for batch in (1, 2)] == [True, True]
    interrupted.meanwhile_at_look = lambda: group.finish(1, archives=False)

    slow.finish(2, archives=False)

    assert (group.floor(), group.sealed()) == (2, [])


def test_a_driver_is_fenced_off_though_its_marker_stays(spool: Spool) -> None:
    """The next driver has died between a link and an unlink, which are a rename on some systems."""
    first = start_group(spool)
    marker = spool.root / "spark/claims/lake" / f"driver.{first.driver}"
    start_group(spool)
    marker.touch()

    with pytest.raises(ClaimError, match="another driver has taken over"):
        first.begin(1, 1)
