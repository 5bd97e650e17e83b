"""Moves between folders: those the map draws, none that replaces."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from mq.lifecycle import MOVES, Actor, Folder, MoveRefused, allowed_moves
from mq.spool.spool import Spool
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import names_in

DRAWN = sorted(
    (source, target)
    for source, target in allowed_moves(Actor.SERVER)
    if source is not None and target is not None
    if source is not target or source is Folder.QUEUES
)
EVERYWHERE = (None, *Folder)
NOT_DRAWN = [
    (actor, source, target)
    for actor in Actor
    for source, target in product(EVERYWHERE, EVERYWHERE)
    if (source, target) not in allowed_moves(actor) and (source, target) != (None, None)
]


def _name(folder: Folder) -> str:
    return "orders/1" if folder is Folder.QUEUES else "orders:1"


def _name_before(folder: Folder) -> str:
    """In another queue, for a move from queue to queue."""
    return "orders.dead/1" if folder is Folder.QUEUES else _name(folder)


def _put(spool: Spool, folder: Folder, body: str, name: str | None = None) -> Path:
    path = Path(spool.path(folder, name or _name(folder)))
    path.parent.mkdir(exist_ok=True)
    path.write_text(body)
    return path


@pytest.mark.parametrize(("source", "target"), DRAWN)
def test_move_that_the_map_draws_is_one_rename(
    spool: Spool, source: Folder, target: Folder
) -> None:
    message = _put(spool, source, "mine", _name_before(source))

    assert spool.move(source, _name_before(source), target, _name(target))

    assert not message.exists()
    assert Path(spool.path(target, _name(target))).read_text() == "mine"


@pytest.mark.parametrize(("actor", "source", "target"), NOT_DRAWN)
def test_move_that_the_map_does_not_draw_for_an_actor_is_refused(
    spool: Spool, actor: Actor, source: Folder | None, target: Folder | None
) -> None:
    message = _put(spool, source or Folder.NEW, "mine")
    before = sorted(spool.root.rglob("*"))
    other = Spool(spool.root, spool.files, actor)

    with closing(other), pytest.raises(MoveRefused, match=f" for {actor}: see the table"):
        _move(other, source, target, message)

    assert message.read_text() == "mine"
    assert sorted(spool.root.rglob("*")) == before


def _move(spool: Spool, source: Folder | None, target: Folder | None, message: Path) -> None:
    """Make a move by whichever method of the spool makes it."""
    if target is None:
        assert source is not None
        spool.unlink(source, _name(source))
    elif source is None:
        with message.open() as unnamed:
            spool.link(unnamed.fileno(), target, "orders:2")
    elif source is target and source is not Folder.QUEUES:
        spool.rename_within(source, _name(source), "orders:2")
    else:
        spool.move(source, _name(source), target, "orders:2")


@pytest.mark.parametrize(("source", "target"), DRAWN)
def test_no_move_replaces(spool: Spool, source: Folder, target: Folder) -> None:
    mine = _put(spool, source, "mine", _name_before(source))
    other = _put(spool, target, "other")

    with pytest.raises(FileExistsError):
        spool.move(source, _name_before(source), target, _name(target))

    assert (mine.read_text(), other.read_text()) == ("mine", "other")


@pytest.mark.parametrize(("source", "target"), DRAWN)
def test_move_of_what_is_gone_is_a_lost_race(spool: Spool, source: Folder, target: Folder) -> None:
    assert not spool.move(source, _name_before(source), target, _name(target))


def test_move_into_a_queue_that_is_gone_leaves_the_message(spool: Spool) -> None:
    message = _put(spool, Folder.NEW, "mine")
    (spool.root / "queues" / "orders").rmdir()

    assert not spool.move(Folder.NEW, "orders:1", Folder.QUEUES, "orders/1")

    assert message.read_text() == "mine"


def test_move_aside_finds_a_free_name(spool: Spool) -> None:
    for body in ("first", "second", "third"):
        _put(spool, Folder.DELAY, body)
        spool.move_aside(Folder.DELAY, "orders:1", Folder.REMOVE, "orders:1")

    removed = spool.root / "remove"
    assert names_in(removed) == ["orders:1", "orders:1~2", "orders:1~3"]
    assert (removed / "orders:1~3").read_text() == "third"
    assert spool.move_aside(Folder.DELAY, "orders:1", Folder.REMOVE, "orders:1") is None


def test_corrupt_is_made_when_first_needed(spool: Spool) -> None:
    corrupt = spool.root / "corrupt"
    assert not corrupt.exists()
    _put(spool, Folder.NEW, "mine")

    spool.move(Folder.NEW, "orders:1", Folder.CORRUPT, "orders:1")

    assert corrupt.stat().st_mode == spool.root.stat().st_mode


def test_every_message_has_a_way_on_except_from_corrupt() -> None:
    sources = {move.source for move in MOVES}

    assert set(Folder) - sources == {Folder.CORRUPT}
    assert [move.word for move in MOVES if move.source is None] == ["publish", "fetch", "stage"]


def test_only_a_reaper_ends_a_message() -> None:
    ends = {move.word: move.actors for move in MOVES if move.target is None}

    assert ends.pop("drop a name") <= {Actor.SERVER, Actor.FSCK, Actor.SPARK}
    assert ends == {"reap": {Actor.REAPER, Actor.STAGING}}


def test_each_pair_of_folders_has_one_row() -> None:
    pairs = [(move.source, move.target) for move in MOVES]

    assert len(set(pairs)) == len(pairs)


def test_message_that_two_move_at_once_keeps_both_names(
    open_spool: Callable[[WatchedFiles], Spool],
) -> None:
    # Without RENAME_NOREPLACE a move is a link and an unlink; here another one comes between. No
    # name is unlinked to undo a move, because it may be the only one: a removal takes all of them.
    files = OldFiles()
    spool = open_spool(files)
    message, taken = _put(spool, Folder.DELAY, "mine"), spool.root / "remove" / "orders:1"
    (spool.root / "queues" / "orders").mkdir()
    files.before["unlink"] = lambda *_: message.exists() and message.rename(taken)

    assert not spool.move(Folder.DELAY, "orders:1", Folder.QUEUES, "orders/1")

    assert taken.read_text() == "mine"
    assert taken.samefile(spool.root / "queues" / "orders" / "1")


def test_rename_of_a_folder_never_replaces_one_with_something_in_it(
    spool: Spool, files: WatchedFiles
) -> None:
    _put(spool, Folder.QUEUES, "mine")
    other = spool.root / "remove" / "orders"
    other.mkdir()
    (other / "2").write_text("other")

    with pytest.raises(OSError, match=r"File exists|not empty"):
        spool.move(Folder.QUEUES, "orders", Folder.REMOVE, "orders")

    assert names_in(spool.root / "queues" / "orders") == ["1"]
    assert names_in(other) == ["2"]
