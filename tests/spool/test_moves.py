"""The table decides: take one move away from one actor, and what needs it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq import lifecycle
from mq.config import MoverConfig, ReaperConfig
from mq.ctl.ways.by_root import RootAccess
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import MOVES, Actor, Folder, Move, MoveRefused
from mq.spool.root import folder_of_root, open_root
from mq.store.publishing.copies import publish_one
from mq_mover.mover import Mover
from mq_reaper.reaper import Reaper
from tests.support import arrows as arrow_cases
from tests.support.arrows import ONE, ORDERS, Arrow, leased, server
from tests.support.staging_arrows import STAGING_CASES
from tests.support.stores import draft_of


def hand_over(access: RootAccess) -> None:
    work, removes = access._runner.work, (ORDERS, ONE, frozenset({1}))
    access._runner.run(publish_one(work, ORDERS, draft_of(b"body"), (), removes))


TAKE: Arrow = (Actor.SERVER, Folder.DELAY, Folder.NEW)
CASES = arrow_cases.CASES | STAGING_CASES | {TAKE: (leased, server(hand_over))}


@pytest.fixture
def root(root: Path) -> Path:
    open_root(root, 0o700, Files())[0].close()
    (root / "queues/orders").mkdir()
    return root


def arrows() -> list[Arrow]:
    return [(actor, move.source, move.target) for move in MOVES for actor in move.actors]


def test_every_move_of_every_actor_has_a_case() -> None:
    assert sorted(map(str, arrows())) == sorted(map(str, CASES))


@pytest.mark.parametrize("arrow", CASES, ids=lambda arrow: "-".join(str(each) for each in arrow))
def test_what_needs_a_move_is_refused_without_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, arrow: Arrow
) -> None:
    """The operation then goes on, with the whole table, from what the refusal left."""
    actor, source, target = arrow
    prepare, act = CASES[arrow]
    prepare(root)

    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "MOVES", table_without(arrow))
        with pytest.raises((MoveRefused, StartRefused)) as refused:
            act(root)

    wanted = f"no move from {source or 'nowhere'} to {target or 'nowhere'} for {actor}:"
    assert wanted in str(refused.value)
    act(root)


def table_without(arrow: Arrow) -> tuple[Move, ...]:
    actor, source, target = arrow
    return tuple(
        move._replace(actors=move.actors - {actor})
        if (move.source, move.target) == (source, target)
        else move
        for move in MOVES
    )


@pytest.mark.parametrize("source", ["queues", "remove", "corrupt"])
def test_a_mover_is_not_started_on_folders_it_moves_nothing_from(root: Path, source: str) -> None:
    (root / "corrupt").mkdir()

    with pytest.raises(StartRefused, match=f"no move from {source} to queues for mover"):
        Mover(MoverConfig(root / source, root / "queues"), Files())


@pytest.mark.parametrize("source", ["new", "queues", "delay", "corrupt"])
def test_a_reaper_is_not_started_on_messages_that_are_not_removed(root: Path, source: str) -> None:
    (root / "corrupt").mkdir()

    with pytest.raises(StartRefused, match=f"no move from {source} to nowhere for reaper"):
        Reaper(ReaperConfig(root / source), Files())


def test_a_folder_is_one_of_a_root_by_the_file_format_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "queues"
    folder.mkdir()

    assert folder_of_root(folder) is None
    (tmp_path / "format").write_text("mq 1\n")
    assert folder_of_root(folder) is Folder.QUEUES
    (tmp_path / "link").symlink_to(folder)
    assert folder_of_root(tmp_path / "link") is Folder.QUEUES


@pytest.mark.parametrize("below", ["", "queues/orders", "remove/orders:.purged"])
def test_neither_mover_nor_reaper_is_started_on_a_root_or_deeper_in_one(
    root: Path, below: str
) -> None:
    """There a reaper would unlink the file `format`, or messages that are not removed."""
    (root / below).mkdir(exist_ok=True)

    for start in (
        lambda: Reaper(ReaperConfig(root / below), Files()),
        lambda: Mover(MoverConfig(root / below, root / "queues"), Files()),
        lambda: Mover(MoverConfig(root / "delay", root / below), Files()),
    ):
        with pytest.raises(StartRefused, match="not one of the folders of the root") as refused:
            start()
        assert refused.value.exit_code is ExitCode.FOLDERS


def test_neither_mover_nor_reaper_is_started_on_a_root_of_another_version(root: Path) -> None:
    (root / "format").write_text("mq 3\n")

    for start in (
        lambda: Reaper(ReaperConfig(root / "remove"), Files()),
        lambda: Mover(MoverConfig(root / "delay", root / "queues"), Files()),
    ):
        with pytest.raises(StartRefused, match="use the version of MQ that wrote it") as refused:
            start()
        assert refused.value.exit_code is ExitCode.FORMAT
