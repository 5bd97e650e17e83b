"""A leased message is removed the same, whether or not anything about it is found unusual."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.disk.file_work import FileCalls, make_calls
from mq.disk.files import Files
from mq.errors import LeaseMismatch
from mq.store.removing import remove_under_lease
from mq.store.removing.remove_many import remove_many
from mq.store.removing.remove_under_lease import remove_leased
from mq.store.shared_state import Workspace
from tests.support.descriptors import count_open
from tests.support.faults import OldFiles, WatchedFiles, raising
from tests.support.leased_files import (
    LEASED_FILES,
    LEASES,
    ONE,
    ORDERS,
    OTHER,
    TWO,
    Act,
    delay,
    leased,
    plain,
    returned_and_taken_by_another,
    torn,
    under_another_lease,
    with_a_long_seal,
)
from tests.support.workspaces import contents_of, workspace_on

Removal = Callable[[Workspace], Operation[Any]]


def of_one(work: Workspace) -> Operation[Any]:
    return remove_leased(work, ORDERS, ONE, LEASES)


def of_several(work: Workspace) -> Operation[Any]:
    return remove_many(work, ORDERS, [ONE, TWO, ONE], LEASES)


def play(operation: Operation[Any]) -> tuple[list[object], object]:
    """Run an operation up to its end, or until it waits. Returns which folders it has synced, and
    what came of it."""
    needs: list[object] = []
    answer: Any = None
    while True:
        try:
            need = operation.send(answer)
        except StopIteration as stop:
            return needs, _as_value(stop.value)
        except Exception as error:
            return needs, _as_value(error)
        answer = None
        if isinstance(need, FileCalls):
            (answer,) = make_calls([need])
        elif isinstance(need, Unsynced):
            needs.append((need.folders, sorted(need.implied)))
        else:
            operation.close()
            return needs, type(need).__name__


def _as_value(outcome: object) -> object:
    if isinstance(outcome, list):
        return [_as_value(each) for each in outcome]
    return (type(outcome), str(outcome)) if isinstance(outcome, Exception) else outcome


def both_ways(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Act,
    removal: Removal,
    *,
    strike: tuple[str, Act] | None = None,
    kind: type[Files] = WatchedFiles,
) -> list[object]:
    """What comes of a removal, first as it is, and then where no message counts as usual. `strike`
    is a file call, and what happens before the first one."""
    found: list[object] = []
    for way in ("usual", "unusual"):
        if way == "unusual":
            monkeypatch.setattr(remove_under_lease, "_is_usual", lambda *arguments: False)
        root = tmp_path / way
        files = kind()
        with workspace_on(root, ORDERS, lambda: 10**18, files) as work:
            make(root)
            leased(delay(root, TWO))
            descriptors = count_open(root)
            if strike is not None:
                strike_once(files, root, *strike)
            told = play(removal(work))
            assert count_open(root) == descriptors
            names = sorted(str(path.relative_to(root)) for path in root.glob("[dnqrc]*/**/[!.]*"))
            made = files.calls if isinstance(files, WatchedFiles) else None
            found.append((told, names, contents_of(root), work.counts.of(ORDERS).removed, made))
    return found


@pytest.mark.parametrize("removal", [of_one, of_several])
@pytest.mark.parametrize("kind", [Files, WatchedFiles, OldFiles])
@pytest.mark.parametrize("make", LEASED_FILES)
def test_what_is_usual_is_removed_as_the_unusual_is(
    make: Act,
    kind: type[Files],
    removal: Removal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The calls of `Files` are those of the native part, if there is one."""
    usual, unusual = both_ways(tmp_path, monkeypatch, make, removal, kind=kind)

    assert usual == unusual


def strike_once(files: Files, root: Path, call: str, act: Act) -> None:
    assert isinstance(files, WatchedFiles)
    before = files.before

    def hook(*_: object) -> None:
        del before[call]
        act(root)

    before[call] = hook


def replace_it(root: Path) -> None:
    os.rename(delay(root), root / "aside")
    leased(delay(root), OTHER)


def return_it(root: Path) -> None:
    os.rename(delay(root), root / "queues" / ORDERS / ONE)


def return_it_and_lease_it_again(root: Path) -> None:
    delay(root).unlink()
    leased(root / "queues" / ORDERS / ONE, OTHER)


def remove_it(root: Path) -> None:
    os.rename(delay(root), root / "remove" / f"{ORDERS}:{ONE}")


def unlink_it(root: Path) -> None:
    delay(root).unlink()


def put_a_file_in_its_way(root: Path) -> None:
    (root / "remove" / f"{ORDERS}:{ONE}").write_bytes(b"other")


RACES = (
    replace_it, return_it, return_it_and_lease_it_again, remove_it, unlink_it,
    put_a_file_in_its_way,
)  # fmt: skip


@pytest.mark.parametrize("removal", [of_one, of_several])
@pytest.mark.parametrize("call", ["open_message", "lock", "rename"])
@pytest.mark.parametrize("act", RACES)
def test_what_another_does_meanwhile_has_the_same_end(
    act: Act, call: str, removal: Removal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, unusual = both_ways(tmp_path, monkeypatch, plain, removal, strike=(call, act))

    assert usual == unusual


@pytest.mark.parametrize("removal", [of_one, of_several])
@pytest.mark.parametrize("call", ["open_message", "lock", "rename"])
@pytest.mark.parametrize(
    "code", [errno.EIO, errno.ENOSPC, errno.ENOENT, errno.EEXIST, errno.EWOULDBLOCK, errno.EACCES]
)
def test_failure_of_any_call_has_the_same_end(
    code: int, call: str, removal: Removal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, unusual = both_ways(tmp_path, monkeypatch, plain, removal, strike=(call, raising(code)))

    assert usual == unusual


@pytest.mark.parametrize("make", [plain, with_a_long_seal, torn])
def test_what_is_usual_does_not_come_to_the_unusual_way(
    make: Act, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove_under_lease, "_move_unusual", None)
    with workspace_on(root, ORDERS, lambda: 10**18) as work:
        make(root)

        assert play(of_one(work)) == ([(("remove",), ["delay"])], None)
    assert not delay(root).exists()


def test_the_file_that_is_moved_is_locked_and_has_its_name(root: Path) -> None:
    seen: list[str] = []

    def look(root: Path) -> None:
        with open(delay(root)) as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append("locked")

    files = WatchedFiles()
    with workspace_on(root, ORDERS, lambda: 10**18, files) as work:
        plain(root)
        strike_once(files, root, "rename", look)
        play(of_one(work))

    assert seen == ["locked"]
    assert (root / "remove" / f"{ORDERS}:{ONE}").exists()


@pytest.mark.parametrize("make", [under_another_lease, returned_and_taken_by_another])
def test_an_old_lease_removes_nothing(make: Act, root: Path) -> None:
    with workspace_on(root, ORDERS, lambda: 10**18) as work:
        make(root)
        before = contents_of(root)

        _, outcome = play(of_one(work))

        assert isinstance(outcome, tuple)
        assert outcome[0] is LeaseMismatch
        assert contents_of(root) == before


def test_a_message_that_is_replaced_after_it_was_opened_is_not_removed(root: Path) -> None:
    files = WatchedFiles()
    with workspace_on(root, ORDERS, lambda: 10**18, files) as work:
        plain(root)
        strike_once(files, root, "lock", replace_it)

        _, outcome = play(of_one(work))

        assert isinstance(outcome, tuple)
        assert outcome[0] is LeaseMismatch
    assert delay(root).exists()


def test_removal_of_what_was_removed_under_another_name_is_repeated(root: Path) -> None:
    """The name in `remove` was taken, as after a move from another queue."""
    removed = root / "remove" / f"{ORDERS}:{ONE}"
    with workspace_on(root, ORDERS, lambda: 10**18) as work:
        leased(removed, OTHER)
        plain(root)

        for _ in range(2):
            assert play(of_one(work))[1] is None
        assert not delay(root).exists()
        assert removed.with_name(f"{removed.name}~2").exists()

        removed.with_name(f"{removed.name}~2").unlink()
        _, outcome = play(of_one(work))
        assert isinstance(outcome, tuple)
        assert outcome[0] is LeaseMismatch
