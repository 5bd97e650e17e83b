"""VSQS: one queue for threads, forked children, and many queues in one process."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.processes import wait_until
from tests.support.users import NOBODY, needs_root
from tests.support.vsqs import wait_until_blocked
from vsqs.queue import Queue, QueueException

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
"""Since Python 3.12 a fork beside threads is warned of."""


# Threads


def test_threads_share_one_queue(queue: Queue, pool: ThreadPoolExecutor) -> None:
    """More of them than messages: each message wakes one that takes it."""
    bodies = {b"%d" % n for n in range(12)}
    receivers = [pool.submit(queue.receive) for _ in bodies]
    wait_until(lambda: queue._shared._folder is not None and queue._shared._folder.users == 12)

    ids = [queue.publish(body) for body in bodies]

    received = {receiver.result(20) for receiver in receivers}
    assert {body for _, body in received} == bodies
    assert {message_id for message_id, _ in received} == set(ids)


def test_closing_ends_those_who_wait(folder: Path, pool: ThreadPoolExecutor) -> None:
    queue = Queue(folder, capacity=0)
    waiting: list[Future[Any]] = [pool.submit(queue.receive), pool.submit(queue.receive)]
    waiting.append(pool.submit(queue.publish, b""))
    wait_until(lambda: queue._shared._folder is not None and queue._shared._folder.users == 3)

    queue.close()

    for each in waiting:
        with pytest.raises(QueueException, match="closed"):
            each.result(10)
    queue.close()
    with pytest.raises(QueueException, match="closed"):
        queue.size()


def test_an_error_in_one_thread_is_not_that_of_another(
    folder: Path, pool: ThreadPoolExecutor
) -> None:
    files = WatchedFiles()
    with Queue(folder, files=files) as queue:
        received = pool.submit(queue.receive)
        wait_until_blocked(received, queue)
        files.fail("create", code=errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            queue.publish(b"lost")

        queue.publish(b"body")

        assert received.result(10)[1] == b"body"


def test_a_call_that_begins_as_the_queue_is_closed_opens_no_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(folder)
    entered = queue._shared.entered

    def closed_first() -> Any:
        queue.close()
        return entered()

    monkeypatch.setattr(queue._shared, "entered", closed_first)

    with pytest.raises(QueueException, match="closed"):
        queue.size()
    assert queue._shared._folder is None


# Processes


def test_a_forked_child_uses_the_queue_of_its_parent(queue: Queue, folder: Path) -> None:
    queue.publish(b"before")
    child = os.fork()
    if child == 0:
        try:
            message_id, _ = queue.receive(timeout=10)
            queue.delete(str(message_id))
            queue.publish(b"by the child")
        finally:
            os._exit(queue.size())

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert queue.receive(timeout=10)[1] == b"by the child"
    assert queue.size() == 1


def test_a_forked_child_goes_on_looking(queue: Queue) -> None:
    bodies = [b"first", b"second", b"third"]
    ids = [queue.publish(body) for body in bodies]
    looking = queue.messages()
    assert next(looking) == (ids[0], bodies[0])
    child = os.fork()
    if child == 0:
        found: list[tuple[str, bytes]] = []
        try:
            # What the parent had open is closed here, and its numbers are used again.
            os.open("/", os.O_RDONLY)
            found = list(looking)
        finally:
            os._exit(found != [(ids[1], bodies[1]), (ids[2], bodies[2])])

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(looking) == [(ids[1], bodies[1]), (ids[2], bodies[2])]


def test_a_child_does_not_take_the_events_of_its_parent(queue: Queue, folder: Path) -> None:
    begin, end = os.pipe()
    child = os.fork()
    if child == 0:
        (folder / "5").touch()
        queue.size()
        os.write(end, b"!")
        os._exit(0)
    os.read(begin, 1)
    os.waitpid(child, 0)
    os.close(begin)
    os.close(end)

    assert queue.receive(timeout=0)[0] == "5"


def test_a_fork_in_the_middle_of_another_threads_work_holds_up_no_child(
    folder: Path, pool: ThreadPoolExecutor
) -> None:
    files = WatchedFiles()
    with Queue(folder, files=files) as queue:
        gate = files.hold_back("create")
        published = pool.submit(queue.publish, b"by the parent")
        wait_until(gate._reached.is_set)
        child = os.fork()
        if child == 0:
            files.before.clear()
            os._exit(queue.size())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        gate.open()
        assert queue.receive(timeout=10) == (published.result(10), b"by the parent")


def test_many_queues_are_opened_and_closed(tmp_path: Path) -> None:
    before = open_descriptors()
    for number in range(150):
        with closing(Queue(tmp_path / str(number % 3), sync=False)) as queue:
            queue.publish(b"")
    assert open_descriptors() == before

    with ExitStack() as stack:
        queues = [stack.enter_context(Queue(tmp_path / str(n))) for n in range(10)]
        queues[0].close()
        queues[1].publish(b"")
        assert queues[1].receive()[0] is not None
    assert open_descriptors() == before

    for _ in range(10):
        Queue(tmp_path / "forgotten").publish(b"")
    assert open_descriptors() == before


@needs_root
@pytest.mark.parametrize("below", ["", "orders"])
def test_a_link_that_another_user_planted_is_not_followed(tmp_path: Path, below: str) -> None:
    shared, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    shared.mkdir()
    shared.chmod(0o1777)
    (elsewhere / below).mkdir(parents=True)
    (shared / "queue").symlink_to(elsewhere)
    os.chown(shared / "queue", NOBODY, NOBODY, follow_symlinks=False)

    with pytest.raises(PermissionError, match="a link that user 65534 made"):
        Queue(shared / "queue" / below)

    os.chown(shared / "queue", 0, 0, follow_symlinks=False)
    Queue(shared / "queue" / below).close()


@needs_root
def test_a_folder_of_another_user_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    os.chown(tmp_path / "queue", NOBODY, NOBODY)

    with pytest.warns(UserWarning, match="belongs to user 65534"):
        Queue(tmp_path / "queue").close()
