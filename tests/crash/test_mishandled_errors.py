"""A sync error that is ignored, a sync that is tried again, a short write that is taken for a whole
one: each breaks a promise after some cut."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from mq.commit.barrier import Barrier, Unsynced
from mq.disk.files import Files
from tests.crash.enumeration.interference import Interference
from tests.crash.enumeration.interplay import failing_sync
from tests.crash.enumeration.publishing import publish_few, publish_large
from tests.crash.enumeration.recorder import PLAIN
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.sight import Sight

FAILING = Row("a sync fails", failing_sync)
WRITING = [
    Row("publish", publish_few),
    Row("publish, a large body", publish_large),
    Row("publish, no attributes", publish_few, PLAIN),
]
RUNS = range(6)

make_durable = Barrier.make_durable
write = os.write


class IgnoringErrors(Interference):
    """The barrier takes a failed sync for a good one."""

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        def ignore(barrier: Barrier, unsynced: Sequence[Unsynced]) -> None:
            try:
                make_durable(barrier, unsynced)
            except OSError:
                pass

        patch.setattr(Barrier, "make_durable", ignore)


class TryingAgain(Interference):
    """The barrier syncs again after an error, which succeeds."""

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        def try_again(barrier: Barrier, unsynced: Sequence[Unsynced]) -> None:
            try:
                make_durable(barrier, unsynced)
            except OSError:
                make_durable(barrier, unsynced)

        patch.setattr(Barrier, "make_durable", try_again)


class ShortWrites(Interference):
    """No write(2) writes more than half of a body. The format file is shorter than any."""

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[: max(len(data) // 2, 5)]))


class IgnoringShortWrites(ShortWrites):
    """And nobody looks at how much that was."""

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        super().prepare(patch)
        patch.setattr(Files, "write", lambda self, fd, data: os.write(fd, data))


@pytest.mark.parametrize("mishandling", [IgnoringErrors, TryingAgain])
def test_sync_error_that_is_mishandled_is_seen(
    quick_folder: Path, mishandling: type[Interference]
) -> None:
    runs = [(FAILING, number) for number in RUNS]

    with Sight(quick_folder) as sight:
        assert sight.catches(Interference, runs) is None
        assert sight.catches(mishandling, runs) is not None


@pytest.mark.parametrize("row", WRITING, ids=lambda row: row.name)
def test_short_write_that_is_taken_for_a_whole_one_is_seen(quick_folder: Path, row: Row) -> None:
    runs = [(row, number) for number in RUNS]

    with Sight(quick_folder) as sight:
        assert sight.catches(ShortWrites, runs) is None
        assert sight.catches(IgnoringShortWrites, runs) is not None
