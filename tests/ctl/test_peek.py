"""`mqctl peek`, over HTTP and on the folders: looks and takes nothing."""

from __future__ import annotations

import os

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused

LARGE = os.urandom(300_000)


def test_peek_shows_the_oldest_ready_messages(ctl: Ctl, queue: str) -> None:
    ids = [ctl.ok("send", queue, body).out.decode().strip() for body in ("a\x1b[31m\n", "b")]
    ctl.ok("send", queue, stdin=LARGE)

    lines = ctl.ok("peek", queue, "-n", "2").out.decode().splitlines()

    assert lines == [
        rf"id={ids[0]} count=0 state=ready bytes=7 a\x1b[31m\n",
        f"id={ids[1]} count=0 state=ready bytes=1 b",
    ]
    assert ctl.ok("peek", queue).out.decode().endswith("...\n")
    assert [each["body"] for each in ctl.ok("peek", queue, "-n", "2", "--json").lines()] == [
        "a\x1b[31m\n", "b",
    ]  # fmt: skip
    assert ctl.ok("info", queue, "--json").json()["ready"] == 3


def test_peek_at_one_shows_its_body_whatever_its_state(ctl: Ctl, queue: str) -> None:
    ctl.ok("send", queue, stdin=LARGE)
    message = ctl.ok("recv", queue, "--json").json()

    shown = ctl.ok("peek", queue, message["id"])

    assert shown.out == LARGE
    lease = f" lease={message['lease']}" if ctl.way[0] == "--root" else ""
    assert shown.err == f"id={message['id']}{lease} count=1\n"
    document = ctl.ok("peek", queue, message["id"], "--json").json()
    assert document == message | {"lease": message["lease"] if lease else None}


def test_a_line_of_a_dead_letter_says_where_it_died_and_why(ctl: Ctl, queue: str) -> None:
    ctl.ok("create", f"{queue}.dead")
    sent = ctl.ok("send", queue, "body").out.decode().strip()
    ctl.ok("move", queue, f"{queue}.dead", "--id", sent, "--reason", 'no "iron"')

    line = ctl.ok("peek", f"{queue}.dead").out.decode()

    died = rf'dead_from={queue} dead_reason="no \"iron\""'
    assert line == f"id={sent} count=0 state=ready {died} bytes=4 body\n"
    assert died in ctl.ok("recv", f"{queue}.dead").err


def test_peek_at_nothing_says_so_by_its_exit_code(ctl: Ctl, queue: str) -> None:
    assert ctl("peek", queue) == (ExitCode.EMPTY, b"", "")
    assert ctl("peek", queue, "--json") == (ExitCode.EMPTY, b"", "")
    assert_refused(ctl("peek", queue, "1"), ExitCode.NOT_FOUND, "has no message 1")
    assert_refused(ctl("peek", "absent"), ExitCode.NOT_FOUND, "no queue absent")


def test_peek_shows_bytes_that_are_no_text(ctl: Ctl, queue: str) -> None:
    ctl.ok(
        "send",
        queue,
        stdin=b"\xff\x00",
    )
    ctl.ok("send", queue, stdin=LARGE)

    assert ctl.ok("peek", queue, "-n", "1").out.decode().endswith(" bytes=2 \\xff\\x00\n")
    (first, second) = ctl.ok("peek", queue, "--json").lines()
    assert first["body_base64"] == "/wA="
    assert len(second["body_base64"]) == 400_000


def test_peek_shows_what_is_leased_or_delayed(ctl: Ctl, queue: str) -> None:
    leased, ready = (ctl.ok("send", queue, body).out.decode().strip() for body in ("a", "b"))
    message = ctl.ok("recv", queue, "--json").json()
    later = [ctl.ok("send", queue, body, "--delay=900").out.decode().strip() for body in ("c", "d")]

    [line] = ctl.ok("peek", queue, "--state=leased").out.decode().splitlines()
    lease = f" lease={message['lease']}" if ctl.way[0] == "--root" else ""
    due = f"visible_at={message['visible_at']}"
    assert line == f"id={leased}{lease} count=1 {due} bytes=1 a"
    documents = ctl.ok("peek", queue, "--state=delayed", "--json").lines()
    assert [each["id"] for each in documents] == later
    assert {each["state"] for each in documents} == {"delayed"}
    assert all(each["visible_at"] > each["published_at"] for each in documents)
    assert [
        each["id"] for each in ctl.ok("peek", queue, "-n1", "--state=delayed", "--json").lines()
    ] == later[:1]
    assert [
        each["id"] for each in ctl.ok("peek", queue, "--state=ready", "--json").lines()
    ] == [ready]  # fmt: skip
    assert ctl("peek", queue, ready, "--state=ready").code == ExitCode.USAGE
    assert_refused(ctl("peek", "absent", "--state=leased"), ExitCode.NOT_FOUND, "no queue absent")
