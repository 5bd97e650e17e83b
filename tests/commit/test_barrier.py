"""What the barrier syncs of a move, and of a new message."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from mq.commit.barrier import FEW_UNSYNCED, MOST_WRITTEN_OUT, Barrier, Unsynced
from mq.commit.blocking import BlockingCommitter
from mq.disk.libc import BEGIN, WHOLE
from mq.lifecycle import FIXED_FOLDERS, Folder
from mq.spool.spool import Spool
from mq.store.publishing.batch import publish_batch
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import receive_some
from mq.store.removing.remove_many import remove_many
from tests.support.faults import WatchedFiles
from tests.support.stores import ORDERS, batch_of, draft_of
from tests.support.workspaces import workspace_on

MOVED = Unsynced((), (Folder.REMOVE,), implied=(Folder.DELAY,))


class _Counting(Barrier):
    """Notes how many messages each barrier is for."""

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool)
        self.messages: list[int] = []

    def prepare(self, unsynced: Sequence[Unsynced]) -> Callable[[], None]:
        self.messages += [each.messages for each in unsynced]
        return super().prepare(unsynced)


def test_operations_tell_how_many_messages_their_barrier_is_for(root: Path) -> None:
    with (
        workspace_on(root, ORDERS, time.time_ns) as work,
        closing(_Counting(work.spool)) as barrier,
    ):
        committer = BlockingCommitter(barrier, work.begin_round, work.end_calls)

        committer.run(publish_batch(work, ORDERS, batch_of(*map(draft_of, (b"1", b"2", b"3")))))
        taken = committer.run(receive_some(work, ORDERS, Ask(limit=3)))
        assert isinstance(taken, list)
        ids = [each.message_id for each in taken]
        committer.run(remove_many(work, ORDERS, ids[:2], None))
        committer.run(remove_many(work, ORDERS, ids[2:], frozenset({taken[2].lease})))

        seal = 1
        assert barrier.messages == [3, seal, 3, 2, 1]


@pytest.fixture
def barrier(spool: Spool) -> Iterator[Barrier]:
    with closing(Barrier(spool)) as made:
        yield made


@pytest.fixture
def synced(files: WatchedFiles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that are synced, in turn; `.` for everything."""
    names: list[str] = []
    monkeypatch.setattr(files, "sync", lambda fd: names.append(_name_of(fd)))
    monkeypatch.setattr(files, "sync_file_system", lambda fd: names.append("."))
    return names


@pytest.fixture
def new_file(spool: Spool) -> Iterator[int]:
    fd = os.open(spool.root / Folder.NEW / "message", os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


def _name_of(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


def test_with_one_log_the_folder_that_a_name_came_to_is_enough(
    spool: Spool, barrier: Barrier, synced: list[str]
) -> None:
    spool.has_one_log = True

    barrier.make_durable([MOVED] * 100)

    assert synced == ["remove"]


def test_with_one_log_the_file_brings_its_name(
    spool: Spool, barrier: Barrier, synced: list[str], new_file: int
) -> None:
    spool.has_one_log = True

    barrier.make_durable([Unsynced((new_file,), (), implied=(Folder.NEW,))])

    assert synced == ["message"]


@pytest.mark.parametrize("has_one_log", [True, False])
def test_several_files_are_synced_in_one_go(
    spool: Spool, barrier: Barrier, synced: list[str], new_file: int, has_one_log: bool
) -> None:
    spool.has_one_log = has_one_log

    barrier.make_durable([Unsynced((new_file,), (), implied=(Folder.NEW,))] * 2)

    assert synced == ["."]


@pytest.mark.parametrize("has_closed_files", [False, True])
def test_on_a_network_file_system_each_thing_of_a_round_is_synced_by_itself(
    spool: Spool, barrier: Barrier, synced: list[str], new_file: int, has_closed_files: bool
) -> None:
    """Another host may have written it, or this one has changed nothing but its attributes."""
    spool.files.is_of_network = True
    prolonged = Unsynced((new_file,), (), has_closed_files, implied=(Folder.DELAY,))
    gone = Unsynced((), ("queues/gone",)) if has_closed_files else MOVED

    barrier.make_durable([prolonged, prolonged, MOVED, gone])

    everything = ["."] if has_closed_files else []
    assert synced == ["message", "message", "remove", "delay", *everything]


@pytest.mark.parametrize("abilities", [(False, True), (True, False), (False, False)])
def test_elsewhere_the_folder_of_a_new_file_is_synced_too(
    spool: Spool,
    barrier: Barrier,
    synced: list[str],
    new_file: int,
    abilities: tuple[bool, bool],
) -> None:
    spool.has_one_log, spool.files.has_unnamed_files = abilities

    barrier.make_durable([Unsynced((new_file,), (), implied=(Folder.NEW,))])

    assert sorted(synced) == ["message", "new"]


@pytest.mark.parametrize("came_to", [*FIXED_FOLDERS, Folder.CORRUPT])
@pytest.mark.parametrize("left", [*FIXED_FOLDERS, Folder.CORRUPT])
def test_elsewhere_the_folder_that_it_left_is_synced_after_the_one_that_it_came_to(
    spool: Spool, barrier: Barrier, synced: list[str], left: Folder, came_to: Folder
) -> None:
    spool.has_one_log = False

    barrier.make_durable([Unsynced((), (came_to,), implied=(left,))])

    assert synced == [came_to, left][: 1 + (came_to != left)]


def test_a_move_by_link_and_unlink_ends_in_the_folder_that_it_came_from(
    spool: Spool, barrier: Barrier, synced: list[str]
) -> None:
    spool.has_one_log = True
    spool.files.renames_without_replacing = False

    barrier.make_durable([MOVED])

    assert sorted(synced) == ["delay", "remove"]


@pytest.mark.parametrize("has_one_log", [True, False])
def test_what_is_implied_counts_towards_what_is_synced_only_where_it_is_synced(
    spool: Spool, barrier: Barrier, synced: list[str], has_one_log: bool
) -> None:
    spool.has_one_log = has_one_log
    implied = tuple(f"queues/q{number}" for number in range(FEW_UNSYNCED))

    barrier.make_durable([Unsynced((), (Folder.DELAY,), implied=implied)])

    assert synced == (["delay"] if has_one_log else ["."])


@pytest.fixture
def calls(spool: Spool, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the barrier asks for where data is written out: in turn, with the name of the file."""
    made: list[str] = []
    spool.has_one_log = spool.has_data_log = True

    def note(call: str) -> None:
        monkeypatch.setattr(
            files,
            call,
            lambda fd, *more: made.append(" ".join([call, _name_of(fd), *map(str, more)])),
        )

    for call in ("sync", "sync_file_system", "write_out"):
        note(call)
    monkeypatch.setattr(files, "stamp", lambda fd, _: made.append(f"stamp {_name_of(fd)}"))
    return made


def test_on_ext4_the_data_of_several_files_is_written_out_before_one_sync_of_the_log(
    barrier: Barrier, calls: list[str], new_file: int
) -> None:
    published = Unsynced((new_file,), (), implied=(Folder.NEW,))

    barrier.make_durable([published, published, MOVED])

    out = [f"write_out message {BEGIN}"] * 2 + [f"write_out message {WHOLE}"] * 2
    assert calls == [*out, "stamp new", "sync new"]


@pytest.mark.parametrize("round_of", [1, 100])
def test_on_ext4_one_thing_is_synced_by_itself(
    barrier: Barrier, calls: list[str], round_of: int
) -> None:
    barrier.make_durable([MOVED] * round_of)

    assert calls == ["sync remove"]


@pytest.mark.parametrize("more", [0, 1])
def test_the_data_of_many_files_is_left_to_a_sync_of_everything(
    barrier: Barrier, calls: list[str], new_file: int, more: int
) -> None:
    published = Unsynced((new_file,), (), implied=(Folder.NEW,))

    barrier.make_durable([published] * (MOST_WRITTEN_OUT + more))

    assert ("sync new" in calls) is not bool(more)
    assert [call.split()[0] for call in calls].count("sync_file_system") == more


def test_files_that_are_closed_by_now_are_found_by_a_sync_of_everything(
    barrier: Barrier, calls: list[str], new_file: int
) -> None:
    barrier.make_durable([Unsynced((new_file,), (Folder.NEW,), has_closed_files=True)])

    assert [call.split()[0] for call in calls] == ["sync_file_system"]


def test_where_the_folder_belongs_to_somebody_else_everything_is_synced(
    barrier: Barrier,
    calls: list[str],
    new_file: int,
    files: WatchedFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(fd: int, mtime_ns: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(files, "stamp", refuse)

    barrier.make_durable([Unsynced((new_file,), (Folder.NEW,))])

    assert calls[-1].split()[0] == "sync_file_system"


@pytest.mark.parametrize("call", ["write_out", "stamp", "sync"])
def test_an_error_on_the_way_fails_the_barrier(
    spool: Spool, barrier: Barrier, new_file: int, files: WatchedFiles, call: str
) -> None:
    spool.has_one_log = spool.has_data_log = True
    unsynced = [Unsynced((new_file,), (Folder.NEW,))]
    barrier.make_durable(unsynced)
    files.fail(call)

    with pytest.raises(OSError, match="Input/output error"):
        barrier.make_durable(unsynced)


def test_a_folder_of_a_queue_stays_open_until_it_is_synced(
    spool: Spool, barrier: Barrier, synced: list[str]
) -> None:
    sync = barrier.prepare([Unsynced((), ("queues/orders",))])
    spool.queues.drop("orders")
    sync()

    assert synced == ["orders"]
