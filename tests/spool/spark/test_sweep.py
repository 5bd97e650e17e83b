"""The sweep below `spark`: a damaged or oddly named file costs itself alone, and no server refuses
to start for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.sweep import Sweeper
from mq.store.opening import open_store
from tests.support.lone_root import make_root
from tests.support.processes import Server, wait_until
from tests.support.spark_files import bodies, stage
from tests.support.stores import ORDERS


def commit_by_hand(root: Path, job: str, batch: int = 1, body: bytes = b"body") -> Path:
    """Leave what a driver leaves that died right after the link. Returns the list of winners."""
    spool = visit_root(root, Files(), Actor.SPARK)
    stage(spool, "0-1", body, job=job, batch=batch)
    spool.close()
    winners = root / "spark/txn" / job / f"{batch}"
    winners.parent.mkdir(parents=True, exist_ok=True)
    winners.write_text("0-1\n")
    return winners


def not_text(root: Path) -> None:
    commit_by_hand(root, "bad").write_bytes(b"\xff\xfe\n")


def cut_short(root: Path) -> None:
    commit_by_hand(root, "bad").write_text("0-")


def leads_away(root: Path) -> None:
    commit_by_hand(root, "bad").write_text("../../good/1/0-1\n")


def a_folder_for_the_list(root: Path) -> None:
    winners = commit_by_hand(root, "bad")
    winners.unlink()
    winners.mkdir()


def a_pipe_for_the_list(root: Path) -> None:
    winners = commit_by_hand(root, "bad")
    winners.unlink()
    os.mkfifo(winners)


def a_file_for_the_folder_of_a_job(root: Path) -> None:
    commit_by_hand(root, "bad").unlink()
    (root / "spark/txn/bad").rmdir()
    (root / "spark/txn/bad").touch()
    make_old(root / "spark/stage/bad/1")


def names_that_are_no_numbers(root: Path) -> None:
    for name in ("²", "٣", "01", "-1", "x", "\udcff", "9" * 200):
        (root / "spark/stage/bad" / name).mkdir(parents=True)
        (root / "spark/txn/bad" / name).mkdir(parents=True)
        make_old(root / "spark/stage/bad" / name)


def names_of_jobs_that_nobody_gave(root: Path) -> None:
    for name in ("\udcff", "a\nb", "²", " "):
        (root / "spark/stage" / name / "1").mkdir(parents=True)
        make_old(root / "spark/stage" / name / "1")
    (root / "spark/stage/file").touch()
    (root / "spark/stage/link").symlink_to("..")


def make_old(path: Path) -> None:
    old = time.time() - 10 * 86_400
    os.utime(path, (old, old))


damages = pytest.mark.parametrize(
    "damage",
    [
        not_text,
        cut_short,
        leads_away,
        a_folder_for_the_list,
        a_pipe_for_the_list,
        a_file_for_the_folder_of_a_job,
        names_that_are_no_numbers,
        names_of_jobs_that_nobody_gave,
    ],
)


@damages
def test_a_damaged_file_keeps_nothing_else_from_being_swept(
    root: Path, damage: Callable[[Path], None]
) -> None:
    make_root(root, ORDERS)
    damage(root)
    commit_by_hand(root, "good", body=b"good")
    (root / "new/orders:left").write_bytes(b"left")
    spool = visit_root(root, Files(), Actor.SERVER)

    swept = Sweeper(spool, lambda *_: None).sweep()

    spool.close()
    assert swept.delivered == 2
    assert sorted(bodies(root)) == [b"good", b"left"]


@pytest.mark.parametrize("damage", [not_text, cut_short, leads_away])
def test_what_a_damaged_list_may_have_committed_is_kept_and_reported_once(
    root: Path, damage: Callable[[Path], None]
) -> None:
    make_root(root, ORDERS)
    damage(root)
    reported: list[tuple[str, str]] = []
    spool = visit_root(root, Files(), Actor.SERVER)
    sweeper = Sweeper(spool, lambda *each: reported.append(each))

    sweeper.sweep()
    sweeper.sweep()

    spool.close()
    [(name, why)] = reported
    assert name == "spark/stage/bad/1"
    assert f"{root}/spark/txn/bad/1 is damaged" in why
    assert len(list((root / "spark/stage/bad/1/0-1").iterdir())) == 1


@damages
def test_a_server_starts_on_a_root_with_a_damaged_file_of_spark(
    root: Path, damage: Callable[[Path], None], start_server: Callable[..., Server]
) -> None:
    make_root(root, ORDERS)
    damage(root)
    commit_by_hand(root, "good", body=b"good")

    start_server(root=root)

    assert sorted(bodies(root)) == [b"good"]


class SurprisingFiles(Files):
    """The first sweep comes upon what nobody foresaw."""

    def __init__(self) -> None:
        super().__init__()
        self.surprises = 0

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        if name == "stage" and not self.surprises:
            self.surprises += 1
            raise ValueError("unforeseen")
        return super().open_folder(folder_fd, name)


async def test_a_sweep_that_fails_is_counted_and_the_next_one_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.maintenance.SWEEP_SECONDS", 0.05)
    make_root(root, ORDERS)
    commit_by_hand(root, "good", body=b"good")
    files = SurprisingFiles()

    async with open_store(ServerConfig(root=root), files) as store:
        assert files.surprises == 1
        assert store.health.counts.failed_sweeps == 1
        await asyncio.to_thread(wait_until, lambda: sorted(bodies(root)) == [b"good"], 60)
