"""VSQS: receives that take longer than the visibility timeout, and a timeout of 0."""

from __future__ import annotations

import pytest

from mq.disk.files import Files
from tests.support.faults import WatchedFiles
from tests.support.vsqs import Clock, OpenQueue


def test_a_message_that_was_given_to_another_meanwhile_is_not_returned(
    open_queue: OpenQueue, clock: Clock
) -> None:
    files = WatchedFiles()
    queue, other = open_queue(clock_ns=clock, files=files), open_queue(clock_ns=clock)
    first, second = queue.publish(b"first"), queue.publish(b"second")
    received = []

    def overtake(*_: object) -> None:
        files.before.clear()
        clock.go(11)
        received.append(other.receive(visibility_timeout=100)[0])

    files.before["sync"] = overtake

    received.append(queue.receive(visibility_timeout=10)[0])
    assert received == [first, second]


@pytest.mark.parametrize("call", ["sync", "read"])
@pytest.mark.parametrize("visibility_seconds", [10, 0.001])
def test_a_message_is_still_hidden_when_its_receive_returns(
    open_queue: OpenQueue, clock: Clock, call: str, visibility_seconds: float
) -> None:
    files = WatchedFiles()
    queue, other = open_queue(clock_ns=clock, files=files), open_queue(clock_ns=clock)
    message_id = queue.publish(b"body")
    files.before[call] = lambda *_: clock.go(12)

    received = queue.receive(visibility_timeout=visibility_seconds)

    assert received == (message_id, b"body")
    assert other.receive(timeout=0) == (None, None)
    clock.go(100)
    assert other.receive(timeout=0) == received


def test_a_message_that_was_deleted_meanwhile_is_not_returned(
    open_queue: OpenQueue, clock: Clock
) -> None:
    """What is not hidden any more anybody may delete for the one who receives it next."""
    files = WatchedFiles()
    queue, other = open_queue(clock_ns=clock, files=files), open_queue(clock_ns=clock)
    message_id = queue.publish(b"body")

    def overtake(*_: object) -> None:
        files.before.clear()
        clock.go(11)
        assert other.receive() == (message_id, b"body")
        assert other.delete(message_id)

    files.before["sync"] = overtake

    assert queue.receive(visibility_timeout=10, timeout=0) == (None, None)


def test_with_a_visibility_of_zero_a_message_is_hidden_from_nobody(open_queue: OpenQueue) -> None:
    queue, other = open_queue(), open_queue()
    message_id = queue.publish(b"body")

    assert queue.receive(visibility_timeout=0) == other.receive(timeout=0) == (message_id, b"body")


def test_a_message_that_another_requeues_in_the_middle_is_received_all_the_same(
    open_queue: OpenQueue,
) -> None:
    files = _RequeuedFiles()
    queue = open_queue(files=files)
    message = queue.publish(b"body"), b"body"

    for _ in range(200):
        files.undoes = True
        assert queue.receive(visibility_timeout=0, timeout=0) == message


class _RequeuedFiles(Files):
    """With `undoes`, another receiver requeues the next message as soon as it is renamed."""

    undoes = False

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        super().rename(source_fd, source, target_fd, target)
        if self.undoes:
            self.undoes = False
            super().rename(target_fd, target, source_fd, source)
