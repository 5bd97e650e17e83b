"""Work that forked processes do beside this one."""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from mq.disk.child_processes import Helper, done_beside
from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark import transactions
from mq.spool.spark.jobs import Job
from mq.spool.spark.transactions import commit
from mq.spool.spool import Spool
from tests.support.lone_root import make_root
from tests.support.spark_files import stage as stage_as
from tests.support.stores import ORDERS


def test_all_work_has_ended_at_the_end_of_the_block(tmp_path: Path) -> None:
    names = ["one", "two", "three"]

    with done_beside([(tmp_path / name).touch for name in names]):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_work_that_fails_or_dies_ends_with_the_block_and_shows_nowhere(tmp_path: Path) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with done_beside([(tmp_path / "missing/one").touch, die, (tmp_path / "two").touch]):
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["two"]


def test_work_is_left_undone_where_there_cannot_be_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)

    with done_beside([(tmp_path / "one").touch]):
        (tmp_path / "ours").touch()

    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_a_helper_ends_when_it_is_closed_though_it_has_more_to_say(tmp_path: Path) -> None:
    def never_stop(pipe: BinaryIO) -> None:
        while True:
            pipe.write(bytes(1 << 20))

    helper = Helper(never_stop)
    assert helper.read(wait=True)

    helper.close()


def test_a_helper_ends_with_the_process_that_it_helps(tmp_path: Path) -> None:
    """Killed, and so without a close: SIGKILL, and the mover's SIGTERM, which is as quick."""
    alive, pipe = os.pipe()

    def never_stop(answers: BinaryIO) -> None:
        os.write(pipe, b"%d" % os.getpid())
        while True:
            answers.write(bytes(1 << 20))

    def start_and_die() -> None:
        assert Helper(never_stop).read(wait=True)
        os.kill(os.getpid(), signal.SIGKILL)

    with done_beside([start_and_die]):
        os.close(pipe)
    process = int(os.read(alive, 20))
    ended, _, _ = select.select([alive], [], [], 60)
    if not ended:
        os.kill(process, signal.SIGKILL)
    os.close(alive)
    assert ended, "the helper of a dead process still has the pipe open"


class DeliveringFiles(Files):
    """Files that note who delivers, and do something before."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.driver = os.getpid()
        self.delivered = 0
        self.before: Callable[[], object] = lambda: None
        self._notes = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        if os.readlink(f"/proc/self/fd/{target_fd}").endswith("/queues/orders"):
            self.delivered += 1
            self.before()
            os.write(self._notes, b"%d\n" % os.getpid())
        super().rename(source_fd, source, target_fd, target)


@pytest.fixture
def files(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeliveringFiles:
    """On a root with a queue and a machine with two processors, where three messages are many."""
    make_root(root, ORDERS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(transactions, "ROLLED_BESIDE_FROM", 3)
    return DeliveringFiles(tmp_path / "notes")


def stage(spool: Spool, name: str) -> str:
    """Three messages."""
    bodies = (f"{name} {number}".encode() for number in range(3))
    return stage_as(spool, name, *bodies, job="query", batch=0)


@pytest.mark.parametrize("killed_at", [0, 1, 2])
def test_a_large_commit_is_rolled_forward_by_several_processes_also_if_one_is_killed(
    root: Path, files: DeliveringFiles, tmp_path: Path, killed_at: int
) -> None:
    spool = visit_root(root, files, Actor.SPARK)
    winners = [stage(spool, name) for name in ("0-0", "1-1", "2-2")]

    def kill_helper() -> None:
        if os.getpid() != files.driver and files.delivered == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    files.before = kill_helper
    commit(Job(spool, "query"), 0, winners)
    spool.close()

    bodies = sorted(path.read_text() for path in (root / "queues/orders").iterdir())
    assert bodies == [f"{name} {number}" for name in winners for number in range(3)]
    assert not (root / "spark/stage/query").exists()
    movers = set((tmp_path / "notes").read_text().split())
    assert len(movers) == (1 if killed_at == 1 else 2)
