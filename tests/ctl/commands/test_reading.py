"""`mqctl cat` and `tail`: bodies are written, and nothing is changed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import cast

import pytest

from mq.config import SECOND_NS
from mq.ctl.commands.reading import newest
from mq.ctl.ways.access import Access, ShownMessage
from mq.errors import ExitCode
from mq.ids import id_of_time
from mq.names import MessageId, QueueName
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server
from tests.support.wire import Wire

Follow = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def follow(ctl: Ctl) -> Iterator[Follow]:
    """`follow(queue, *flags)`: tail -f, killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(queue: str, *flags: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mq.ctl", "tail", "-f", queue, *flags, *ctl.way]
        started.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=without_ours())
        )  # fmt: skip
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def files_of(server: Server) -> dict[str, tuple[int, int]]:
    """Every file of the root, and when it was changed."""
    found = {}
    for path in sorted(server.root.rglob("*")):
        if path.is_file() and path.parent.name != "new":
            status = path.stat()
            found[str(path)] = (status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_cat_writes_the_body_of_a_message_in_any_state(
    ctl: Ctl, server: Server, wire: Wire, queue: str
) -> None:
    large = os.urandom(300_000)
    ids = [wire.publish(queue, body) for body in (b"leased\n", b"\xff\x00", large)]
    wire.receive(queue)
    delayed = ctl.ok("send", queue, "later", "--delay=600").out.decode().strip()
    before = files_of(server)

    done = ctl.ok("cat", queue, *ids, delayed)

    assert done.out == b"leased\n\xff\x00" + large + b"later"
    assert done.err == ""
    documents = ctl.ok("cat", queue, ids[0], delayed, "--json").lines()
    assert [(each["state"], each["body"]) for each in documents] == [
        ("leased", "leased\n"), ("delayed", "later"),
    ]  # fmt: skip
    assert files_of(server) == before


def test_cat_names_what_is_not_there(ctl: Ctl, queue: str) -> None:
    assert_refused(ctl("cat", queue, "1"), ExitCode.NOT_FOUND, f"queue {queue} has no message 1")
    assert_refused(ctl("cat", "absent", "1"), ExitCode.NOT_FOUND, "no queue absent")
    assert_refused(ctl("cat", queue), ExitCode.USAGE, "ID...")


def test_cat_of_a_damaged_message_says_so(ctl: Ctl, server: Server, wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue, b"body")
    with (server.root / "queues" / queue / message_id).open("r+b") as file:
        file.write(b"B")

    done = ctl("cat", queue, message_id)

    assert (done.code, done.out) == (ExitCode.UNAVAILABLE, b"Body")
    assert f"message {message_id} fails its seal" in done.err
    assert "mqctl --root ROOT fsck --repair" in done.err
    assert "or a message is damaged)" in done.err


def test_tail_writes_the_newest_messages(ctl: Ctl, server: Server, wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue, body) for body in (b"one", b"two\n", b"", b"f\xffur")]
    before = files_of(server)

    assert ctl.ok("tail", queue) == (0, b"one\ntwo\n\nf\xffur\n", "")
    assert ctl.ok("tail", queue, "-n", "2").out == b"\nf\xffur\n"
    assert ctl.ok("tail", queue, "-n0").out == b""
    assert [each["id"] for each in ctl.ok("tail", queue, "-n3", "--json").lines()] == ids[1:]
    long = ctl.ok("tail", queue, "--long", "-n1").out.decode()
    assert long == f"id={ids[3]} count=0 state=ready bytes=4 f\\xffur\n"
    assert files_of(server) == before


def test_tail_of_nothing_says_so_by_its_exit_code(ctl: Ctl, queue: str) -> None:
    assert ctl("tail", queue) == (ExitCode.EMPTY, b"", "")
    assert_refused(ctl("tail", "absent"), ExitCode.NOT_FOUND, "no queue absent")
    assert_refused(ctl("tail", "-f", "absent"), ExitCode.NOT_FOUND, "no queue absent")


def test_tail_follows_what_comes(wire: Wire, queue: str, follow: Follow) -> None:
    """It goes on when what it has shown is gone."""
    wire.publish(queue, b"old")
    wire.publish(queue, b"newest")
    process = follow(queue, "-n1")
    assert read_line(process) == b"newest\n"

    for _ in range(2):
        wire.remove(queue, wire.receive(queue).headers["x-message-id"])
    wire.publish(queue, b"first")
    assert read_line(process) == b"first\n"
    wire.request("POST", f"/{queue}/messages?batch", b'{"body": "2"}\n{"body": "3"}\n',
                 content_type="application/x-ndjson")  # fmt: skip
    assert [read_line(process) for _ in range(2)] == [b"2\n", b"3\n"]

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, err.strip(), process.returncode) == (b"", b"", 130)


def test_tail_follows_own_ids_when_nothing_is_left_of_the_last(
    ctl: Ctl, server: Server, wire: Wire, queue: str, follow: Follow
) -> None:
    for name in ("kept", "last"):
        ctl.ok("send", queue, name, "--id", name)
    process = follow(queue)
    assert [read_line(process) for _ in range(2)] == [b"kept\n", b"last\n"]

    wire.remove(queue, "last")
    # As the reaper does.
    (server.root / "remove" / f"{queue}:last").unlink()
    for name in ("newer", "newest"):
        ctl.ok("send", queue, name, "--id", name)

    assert [read_line(process) for _ in range(2)] == [b"newer\n", b"newest\n"]


def test_tail_of_an_empty_queue_shows_what_comes(wire: Wire, queue: str, follow: Follow) -> None:
    process = follow(queue, "-n0", "--json")
    assert process.stdout is not None
    sent = []

    # Those that came before its first look are not shown.
    while not select.select([process.stdout.fileno()], [], [], 0.2)[0]:
        sent.append(wire.publish(queue, b"body"))

    shown = json.loads(read_line(process))
    assert shown["id"] in sent
    assert shown["body"] == "body"


def test_tail_ends_quietly_when_its_reader_goes(wire: Wire, queue: str, follow: Follow) -> None:
    """Though there is nothing more to write."""
    wire.publish(queue, b"body")
    process = follow(queue)
    assert read_line(process) == b"body\n"
    assert process.stdout is not None
    assert process.stderr is not None

    process.stdout.close()

    assert process.wait(60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_tail_of_a_queue_that_is_deleted_ends(wire: Wire, queue: str, follow: Follow) -> None:
    wire.publish(queue, b"body")
    process = follow(queue)
    assert read_line(process) == b"body\n"

    wire.request("DELETE", f"/{queue}")

    assert process.wait(60) == ExitCode.NOT_FOUND


# The newest of many


class QueueOfIds:
    """Answers `peek_behind` for messages of these ages, and counts what it gives."""

    def __init__(self, *ages_seconds: float) -> None:
        now_ns = time.time_ns()
        self.ids = sorted(id_of_time(now_ns - int(age * SECOND_NS)) for age in ages_seconds)
        self.given = 0

    def peek_behind(self, queue: QueueName, after: MessageId, limit: int) -> list[ShownMessage]:
        found = [each for each in self.ids if each > after][: min(limit, 3)]
        self.given += len(found)
        return [
            ShownMessage(each, "ready", None, 0, "text/plain", "", None, 0, BytesIO())
            for each in found
        ]


def newest_of(queue: QueueOfIds, limit: int) -> list[str]:
    return [each.message_id for each in newest(cast(Access, queue), QueueName("orders"), limit)]


def test_the_newest_are_found_without_reading_all_before_them() -> None:
    queue = QueueOfIds(*range(20, 5000, 10))

    assert newest_of(queue, 5) == queue.ids[-5:]
    assert queue.given < 50


def test_messages_of_long_ago_are_found_too() -> None:
    queue = QueueOfIds(1e9, 5, 3e8)

    assert newest_of(queue, 5) == queue.ids
    assert newest_of(queue, 3) == queue.ids
    assert newest_of(queue, 2) == queue.ids[1:]
    assert newest_of(QueueOfIds(), 2) == []


def test_a_clock_that_is_wrong_hides_nothing() -> None:
    queue = QueueOfIds(-7200, -7100, 4000)

    assert newest_of(queue, 1) == queue.ids[-1:]
    assert newest_of(queue, 3) == queue.ids
