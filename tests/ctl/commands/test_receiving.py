"""`mqctl recv` of several messages, and with --ack, by both ways in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, without_ours
from tests.support.wire import Wire, make_queue


def test_several_messages_are_received_each_on_a_line(ctl: Ctl, wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue, body) for body in (b"one", b"two\n", b"", b"four")]

    done = ctl.ok("recv", queue, "-n", "3")

    assert done.out == b"one\ntwo\n\n"
    assert [line.split()[0] for line in done.err.splitlines()] == [f"id={each}" for each in ids[:3]]
    assert wire.count(queue) == (1, 3)
    assert [each["body"] for each in ctl.ok("recv", queue, "-n9", "--json").lines()] == ["four"]
    assert ctl("recv", queue, "-n9") == (ExitCode.EMPTY, b"", "")


def test_what_was_written_is_removed_with_ack(ctl: Ctl, wire: Wire, queue: str) -> None:
    large = os.urandom(200_000)
    for body in (b"one", large, b"three", b"four"):
        wire.publish(queue, body)

    assert ctl.ok("recv", queue, "--ack") == (0, b"one", "")
    done = ctl.ok("recv", queue, "--ack", "-n", "2")

    assert done.out == large + b"\n"[: large[-1:] != b"\n"] + b"three\n"
    assert done.err == f"removed 2 messages from {queue}\n"
    assert wire.count(queue) == (1, 0)
    assert [each["body"] for each in ctl.ok("recv", queue, "--ack", "--json").lines()] == ["four"]
    assert ctl("recv", queue, "--ack").code == ExitCode.EMPTY


def test_the_first_of_several_queues_that_has_a_message_gives_it(
    ctl: Ctl, wire: Wire, queue: str
) -> None:
    usual, bulk = make_queue(wire), make_queue(wire)
    others = ("--then", f"{usual},{bulk}")
    assert ctl("recv", queue, *others) == (ExitCode.EMPTY, b"", "")
    for each in (bulk, usual, queue):
        wire.publish(each, each.encode())

    for each in (queue, usual):
        done = ctl.ok("recv", queue, *others)
        assert (done.out, done.err.split()[0]) == (each.encode(), f"queue={each}")
    [document] = ctl.ok("recv", queue, *others, "--json", "--wait=60").lines()
    assert (document["queue"], document["body"]) == (bulk, bulk)


def test_each_message_is_removed_from_its_own_queue(ctl: Ctl, wire: Wire, queue: str) -> None:
    other = make_queue(wire)
    for each in (queue, other):
        wire.publish(each, b"body")

    done = ctl.ok("recv", queue, "--then", other, "--ack", "-n5")

    assert done.err == f"removed 2 messages from {queue}, {other}\n"
    assert wire.count(queue) == wire.count(other) == (0, 0)


def test_a_file_has_the_bodies_that_were_removed(
    ctl: Ctl, wire: Wire, queue: str, tmp_path: Path
) -> None:
    for body in (b"one", b"two"):
        wire.publish(queue, body)

    ctl.ok("recv", queue, "--ack", "-n5", "-o", str(tmp_path / "bodies"))

    assert (tmp_path / "bodies").read_bytes() == b"one\ntwo\n"
    assert wire.count(queue) == (0, 0)


def test_nothing_is_removed_that_could_not_be_written(ctl: Ctl, wire: Wire, queue: str) -> None:
    for _ in range(3):
        wire.publish(queue, b"body")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mq.ctl", "recv", queue, "--ack", "-n3", *ctl.way],
            check=False, stdout=full, stderr=subprocess.PIPE, env=without_ours(), timeout=60,
        )  # fmt: skip

    assert done.returncode == ExitCode.OUTPUT
    assert wire.count(queue) == (2, 1)


def test_an_interrupt_says_how_many_were_removed(ctl: Ctl, wire: Wire, queue: str) -> None:
    wire.publish(queue, b"x" * 300_000)
    wire.publish(queue, b"y" * 300_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "recv", queue, "--ack", "-n5", *ctl.way],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    assert process.stdout is not None
    # It writes the second body into a pipe that is full.
    assert len(process.stdout.read(300_002)) == 300_002

    process.send_signal(signal.SIGINT)

    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == f"removed 1 message from {queue}".encode()
    assert wire.count(queue) == (0, 1)
