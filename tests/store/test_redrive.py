"""A redrive on the folders, where one over HTTP has published some of the dead letters already."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mq.ctl.by_root import RootAccess
from mq.names import MessageId, QueueName, redriven_id
from mq.spool.file_system import file_system_kind
from mq.store.own_id import lock_ids
from mq.times import rfc3339
from tests.support.faults import PlainFiles, WatchedFiles
from tests.support.messages import names_in, read_seal

ORDERS, DEAD = QueueName("orders"), QueueName("orders.dead")
OLD = MessageId("order-4711")


@pytest.fixture(params=[WatchedFiles, PlainFiles])
def files(request: pytest.FixtureRequest) -> WatchedFiles:
    made = request.param()
    assert isinstance(made, WatchedFiles)
    return made


@pytest.fixture
def access(root: Path, files: WatchedFiles) -> Iterator[RootAccess]:
    """With a dead letter."""
    opened = RootAccess(root, files)
    for queue in (ORDERS, DEAD):
        opened.create_queue(queue)
    opened.publish(DEAD, io.BytesIO(b"body"), None, OLD)
    yield opened
    opened.close()


@pytest.fixture
def new(root: Path, access: RootAccess, files: WatchedFiles) -> MessageId:
    """The id under which a redrive over HTTP publishes it."""
    path = root / "queues" / DEAD / OLD
    is_sealed = not isinstance(files, PlainFiles)
    published_ns = read_seal(path).published_ns if is_sealed else path.stat().st_mtime_ns
    return redriven_id(DEAD, OLD, rfc3339(published_ns))


def queued(root: Path) -> list[str]:
    return names_in(root / "queues" / ORDERS)


def dead(root: Path) -> list[str]:
    return names_in(root / "queues" / DEAD)


def test_a_dead_letter_that_was_published_already_is_removed(
    root: Path, access: RootAccess, new: MessageId
) -> None:
    access.publish(ORDERS, io.BytesIO(b"body"), None, new)

    assert access.redrive(ORDERS, DEAD) == 1

    assert (queued(root), dead(root)) == ([new], [])
    assert names_in(root / "remove") == [f"{DEAD}:{OLD}"]


def test_one_whose_new_message_was_handled_meanwhile_is_removed_too(
    root: Path, access: RootAccess, new: MessageId
) -> None:
    access.publish(ORDERS, io.BytesIO(b"body"), None, new)
    access.remove(ORDERS, new, None)

    assert access.redrive(ORDERS, DEAD) == 1

    assert (queued(root), dead(root)) == ([], [])


def test_another_message_under_the_new_id_keeps_none_back(
    root: Path, access: RootAccess, new: MessageId
) -> None:
    access.publish(ORDERS, io.BytesIO(b"other"), None, new)

    assert access.redrive(ORDERS, DEAD) == 1

    assert queued(root) == sorted([new, OLD])
    assert names_in(root / "remove") == []


def test_one_that_is_just_being_published_over_http_is_passed_over(
    root: Path, access: RootAccess, new: MessageId
) -> None:
    lock = lock_ids(access._spool, ORDERS, [new])
    assert lock is not None

    moved = access.redrive(ORDERS, DEAD)
    os.close(lock)

    assert (moved, dead(root)) == (0, [OLD])
    assert access.redrive(ORDERS, DEAD) == 1


def test_the_new_message_is_durable_before_the_dead_letter_goes(
    root: Path, access: RootAccess, new: MessageId, files: WatchedFiles
) -> None:
    if file_system_kind(root) in ("tmpfs", "ramfs"):
        pytest.skip(f"{root} is in memory, where nothing is ever synced")
    access.publish(ORDERS, io.BytesIO(b"body"), None, new)
    steps: list[str] = []
    for name in ("sync", "sync_file_system", "rename"):
        files.before[name] = partial(note, steps, name)

    access.redrive(ORDERS, DEAD)

    renamed = steps.index("rename")
    assert steps.count("rename") == 1
    assert [step for step in steps[:renamed] if step.startswith("sync")]
    assert [step for step in steps[renamed:] if step.startswith("sync")]


def note(steps: list[str], step: str, *_: object) -> None:
    steps.append(step)


def test_one_that_somebody_receives_meanwhile_stays_with_him(
    root: Path, access: RootAccess, new: MessageId, files: WatchedFiles
) -> None:
    if file_system_kind(root) in ("tmpfs", "ramfs"):
        pytest.skip(f"{root} is in memory, where nothing is ever synced")
    access.publish(ORDERS, io.BytesIO(b"body"), None, new)
    other = RootAccess(root, type(files)())

    def receive(*_: object) -> None:
        files.before.clear()
        assert other.receive(DEAD, 1000.0) is not None

    hook: Callable[..., object] = receive
    files.before |= dict.fromkeys(("sync", "sync_file_system"), hook)

    assert access.redrive(ORDERS, DEAD) == 0

    other.close()
    assert queued(root) == [new]
    assert names_in(root / "delay") == [f"{DEAD}:{OLD}"]
