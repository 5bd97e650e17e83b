"""A message is taken the same whether or not it is usual: `Taker` and `take_held` agree."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.config import SMALL_BODY_BYTES
from mq.disk.file_work import do_together
from mq.disk.files import Files
from mq.names import MessageId, QueueName
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.message.held import Lost
from mq.spool.message.seal import MAX_RECEIVE_COUNT, TYPE_ATTRIBUTE, Leases
from mq.store.answer_memory import MAX_BODIES_BYTES, AnswerRoom
from mq.store.receiving import taking
from mq.store.receiving.received_message import Received
from mq.store.receiving.taking import Taken, Taker
from mq.store.shared_state import Workspace
from tests.support.descriptors import count_open
from tests.support.faults import WatchedFiles
from tests.support.messages import read_seal, seal_of, sealed_with, write_message
from tests.support.workspaces import contents_of, workspace_on

NOW_NS = 2_000_000_000 * 10**9
ORDERS = QueueName("orders")
ONE = MessageId("0192d7a4-1111-7000-8000-000000000000")


class FixedLeases(Leases):
    def next(self) -> int:
        return 77


def plain(path: Path) -> None:
    write_message(path, b"body", seal=seal_of(b"body", count=3, lease=5, published_ns=9))


def empty(path: Path) -> None:
    write_message(path, b"", seal=seal_of(b""))


def with_type(path: Path) -> None:
    plain(path)
    os.setxattr(path, TYPE_ATTRIBUTE, b"text/plain")


def with_a_type_that_no_header_can_carry(path: Path) -> None:
    plain(path)
    os.setxattr(path, TYPE_ATTRIBUTE, b"text/\nplain")


def with_properties(path: Path) -> None:
    seal, data = sealed_with(b"body", {"x-meta-shop": "north"})
    write_message(path, data, seal=seal)


def with_damaged_properties(path: Path) -> None:
    seal, data = sealed_with(b"body", trailer=b'\n{"x-meta-shop":1}\n')
    write_message(path, data, seal=seal)


def buried(path: Path) -> None:
    plain(path)
    os.setxattr(path, DEAD_ATTRIBUTE, b"invoices spoiled")


def buried_in_this_queue(path: Path) -> None:
    plain(path)
    os.setxattr(path, DEAD_ATTRIBUTE, b"orders spoiled")


def received_before(path: Path) -> None:
    write_message(path, b"body", seal=seal_of(b"body")._replace(first_received_ns=123))


def received_too_often_to_count(path: Path) -> None:
    write_message(path, b"body", seal=seal_of(b"body", count=MAX_RECEIVE_COUNT))


def without_a_seal(path: Path) -> None:
    write_message(path, b"body")


def with_something_else_as_a_seal(path: Path) -> None:
    write_message(path, b"body")
    os.setxattr(path, "user.mq", b"short")


def large(path: Path) -> None:
    body = b"x" * (SMALL_BODY_BYTES + 1)
    write_message(path, body, seal=seal_of(body))


def torn(path: Path) -> None:
    write_message(path, b"bod", seal=seal_of(b"body"))


def changed(path: Path) -> None:
    write_message(path, b"bode", seal=seal_of(b"body"))


def longer_than_sealed(path: Path) -> None:
    write_message(path, b"bodyguard", seal=seal_of(b"body"))


def a_link(path: Path) -> None:
    path.symlink_to("elsewhere")


def a_folder(path: Path) -> None:
    path.mkdir()


def nothing(path: Path) -> None:
    pass


MAKERS = (
    plain, empty, with_type, with_a_type_that_no_header_can_carry, with_properties,
    with_damaged_properties, buried, buried_in_this_queue, received_before,
    received_too_often_to_count, without_a_seal, with_something_else_as_a_seal, large, torn,
    changed, longer_than_sealed, a_link, a_folder, nothing,
)  # fmt: skip


@contextmanager
def work_on(root: Path, files: Files | None = None) -> Iterator[Workspace]:
    with workspace_on(root, ORDERS, lambda: NOW_NS, files) as work:
        work.leases = FixedLeases()
        yield work


@pytest.fixture
def work(root: Path) -> Iterator[Workspace]:
    with work_on(root) as work:
        yield work


Take = Callable[[Workspace], Taken | Exception]


def take(work: Workspace) -> Taken | Exception:
    (outcome,) = do_together([Taker(work, ORDERS, 10**9).take(ONE)])
    return outcome


def take_together(work: Workspace, room: AnswerRoom | None = None) -> Taken | Exception:
    (outcome,) = Taker(work, ORDERS, 10**9).take_together([ONE], room or AnswerRoom())
    return outcome


ways = pytest.mark.parametrize("take_one", [take, take_together])


def as_value(outcome: object, files: Files) -> object:
    """An outcome as a value: what a receiver has of it, and its type."""
    if not isinstance(outcome, Received):
        return outcome
    outcome.close(files)
    return outcome._replace(fd=int(outcome.fd >= 0))


def stamp_of(root: Path) -> int | None:
    path = root / "delay" / f"{ORDERS}:{ONE}"
    return path.stat().st_mtime_ns if path.exists() else None


@ways
@pytest.mark.parametrize("root_format", ["mq 1", "mq 2"])
@pytest.mark.parametrize("make", MAKERS)
def test_what_is_usual_is_taken_as_take_held_takes_it(
    take_one: Take,
    make: Callable[[Path], None],
    root_format: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = []
    for way in ("usual", "unusual"):
        if way == "unusual":
            monkeypatch.setattr(taking, "begin_usual", lambda *arguments: None)
        root = tmp_path / way
        with work_on(root) as work:
            if root_format == "mq 2":
                work.spool.use_long_seals()
            make(root / "queues" / ORDERS / ONE)
            descriptors = count_open(root)
            outcome = as_value(take_one(work), work.files)
            assert count_open(root) == descriptors + (make in _OPENS_CORRUPT)
        taken.append((outcome, contents_of(root), stamp_of(root)))

    assert taken[0] == taken[1]


_OPENS_CORRUPT = (torn, changed, longer_than_sealed, with_damaged_properties)
"""The folder `corrupt` stays open."""


@ways
@pytest.mark.parametrize(
    "make", [plain, empty, with_type, with_properties, buried, received_before]
)
def test_what_is_usual_does_not_come_to_take_held(
    take_one: Take,
    make: Callable[[Path], None],
    work: Workspace,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Taker, "_take_unusual", None)
    make(root / "queues" / ORDERS / ONE)

    assert isinstance(take_one(work), Received)


@ways
def test_a_lease_is_in_the_file_as_it_is_answered(
    take_one: Take, work: Workspace, root: Path
) -> None:
    plain(root / "queues" / ORDERS / ONE)

    received = take_one(work)

    assert isinstance(received, Received)
    sealed = read_seal(root / "delay" / f"{ORDERS}:{ONE}")
    assert (sealed.lease, sealed.receive_count) == (77, 4)
    assert (received.lease, received.receive_count) == (77, 4)
    assert stamp_of(root) == received.visible_ns == NOW_NS + 10**9


def test_message_for_which_the_answer_has_no_room_stays_as_it_is(
    work: Workspace, root: Path
) -> None:
    plain(root / "queues" / ORDERS / ONE)
    before, room = contents_of(root), AnswerRoom()
    room.takes(1)
    room.takes(1 << 40)
    descriptors = count_open(root)

    assert take_together(work, room) is None
    assert contents_of(root) == before
    assert count_open(root) == descriptors


@ways
@pytest.mark.parametrize("call", ["set_attribute", "stamp", "rename"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.ENOENT, errno.EEXIST])
def test_failure_of_any_call_leaves_the_message_as_it_was(
    take_one: Take, call: str, code: int, root: Path
) -> None:
    files = WatchedFiles()

    def refuse(*arguments: object) -> None:
        setattr(files, call, lambda *again: getattr(Files, call)(files, *again))
        raise OSError(code, os.strerror(code))

    with work_on(root, files) as work:
        plain(root / "queues" / ORDERS / ONE)
        before = contents_of(root)
        descriptors = count_open(root)
        setattr(files, call, refuse)
        outcome = take_one(work)
        assert count_open(root) == descriptors

    if code == errno.ENOENT:
        assert outcome is Lost.GONE
    elif code == errno.EEXIST:
        assert outcome is None
    else:
        assert isinstance(outcome, OSError)
    if code != errno.ENOENT:
        assert contents_of(root) == before


@given(
    st.lists(st.integers(0, MAX_BODIES_BYTES // 3), max_size=8),
    st.none() | st.integers(0, 2 * MAX_BODIES_BYTES),
)
def test_bodies_fit_together_as_they_fit_one_by_one(lengths: list[int], used: int | None) -> None:
    alone, together = AnswerRoom(used), AnswerRoom(used)

    fitting = len([*takewhile(alone.takes, lengths)])

    assert together.count(lengths) == fitting
    assert (together.used, together.is_full) == (alone.used, alone.is_full)
