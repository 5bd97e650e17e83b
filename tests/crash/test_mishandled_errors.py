"""A sync error that is ignored, a sync that is tried again, a folder that is not opened again after
an error, a short write that is taken for a whole one: each breaks a promise after some cut."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mq.commit.barrier import Barrier, Unsynced
from mq.disk.files import Files
from mq.lifecycle import FIXED_FOLDERS, Folder
from mq.spool.open_queues import OpenQueues
from mq.spool.spool import Spool
from tests.crash.enumeration.acting import Chance, known_in, stock
from tests.crash.enumeration.interference import A_QUEUE, EVERYTHING, Interference
from tests.crash.enumeration.interplay import failing_sync
from tests.crash.enumeration.publishing import publish_few, publish_large
from tests.crash.enumeration.recorder import PLAIN
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.sight import Sight


def fail_and_go_on(scene: Scene, chance: Chance) -> None:
    """A sync fails. After that there are rounds of one request, whose sync hides no other's."""
    clients = stock(scene, chance, ready=4)
    scene.settle()
    clients.files.failing_syncs = 1
    clients.run(clients.publish("a"))
    first, second, *_ = known_in(scene, "a")
    rounds: list[list[Coroutine[Any, Any, object]]] = [
        [clients.publish_batch("a", 2)],
        [clients.create("b")],
        [clients.receive("a")],
        [clients.remove("a", str(first.message_id))],
        [clients.move(second, "a.b")],
        [clients.publish("a"), clients.publish("a.b")],
    ]
    for requests in rounds:
        clients.run(*requests)


FAILING = Row("a sync fails", failing_sync)
WRITING = [
    Row("publish", publish_few),
    Row("publish, a large body", publish_large),
    Row("publish, no attributes", publish_few, PLAIN),
]
RUNS = range(6)
GOING_ON = [(Row("a sync fails, and others follow", fail_and_go_on), each) for each in RUNS]

make_durable = Barrier.make_durable
replace, reopen = Spool._replace, Spool.reopen
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


class NotOpenedAgain(Interference):
    """After an error the store goes on with the descriptor that it has of a folder, of each queue,
    or of everything."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        def leave(spool: Spool, folder: Folder, fd: int) -> None:
            if folder == self._what and folder in spool._fds:
                spool.files.close(fd)
            else:
                replace(spool, folder, fd)

        def leave_queues(spool: Spool) -> None:
            with pytest.MonkeyPatch.context() as closing:
                closing.setattr(OpenQueues, "close", lambda _: None)
                reopen(spool)

        patch.setattr(Spool, "_replace", leave)
        if self._what == A_QUEUE:
            patch.setattr(Spool, "reopen", leave_queues)
        if self._what == EVERYTHING:
            patch.setattr(Barrier, "reopen", lambda _: None)


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


def test_what_comes_after_an_error_breaks_nothing(sight: Sight) -> None:
    assert sight.catches(Interference, GOING_ON) is None


@pytest.mark.parametrize("what", [*FIXED_FOLDERS, A_QUEUE, EVERYTHING])
def test_what_is_not_opened_again_after_an_error_is_seen(sight: Sight, what: str) -> None:
    assert sight.catches(partial(NotOpenedAgain, what), GOING_ON) is not None


@pytest.mark.parametrize("row", WRITING, ids=lambda row: row.name)
def test_short_write_that_is_taken_for_a_whole_one_is_seen(quick_folder: Path, row: Row) -> None:
    runs = [(row, number) for number in RUNS]

    with Sight(quick_folder) as sight:
        assert sight.catches(ShortWrites, runs) is None
        assert sight.catches(IgnoringShortWrites, runs) is not None
