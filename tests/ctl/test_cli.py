"""`mqctl`: each command over HTTP and on the folders, beside a running server."""

from __future__ import annotations

import base64
import os
import pty
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
RECEIPT = re.compile(rf"id=({ID}) lease=([0-9a-f]{{16}}) count=(\d+)\n")
LARGE = os.urandom(300_000)
BODIES = [b"", b"two coffees", b"line\nline\n", bytes(range(256)), "früh".encode(), LARGE]


def test_create_says_whether_the_queue_is_new(ctl: Ctl) -> None:
    name = f"q{uuid.uuid4().hex[:12]}"

    assert ctl.ok("create", name).out.decode() == f"created {name}\n"
    assert ctl.ok("create", name).out.decode() == f"existed {name}\n"
    assert ctl.ok("create", name, "--json").json() == {"queue": name, "created": False}


@pytest.mark.parametrize("body", BODIES, ids=["none", "text", "lines", "bytes", "utf-8", "large"])
def test_a_body_from_stdin_comes_out_as_it_went_in(ctl: Ctl, queue: str, body: bytes) -> None:
    sent = ctl.ok("send", queue, stdin=body)
    received = ctl.ok("recv", queue)

    receipt = RECEIPT.fullmatch(received.err)
    assert received.out == body
    assert receipt is not None
    assert sent.out.decode() == f"{receipt[1]}\n"
    assert receipt[3] == "1"


def test_what_one_way_sends_the_other_receives(by_http: Ctl, by_root: Ctl, queue: str) -> None:
    for sender, receiver in ((by_http, by_root), (by_root, by_http)):
        sender.ok("send", queue, "two coffees", "--content-type", "text/plain")

        message = receiver.ok("recv", queue, "--json").json()

        assert message["body"] == "two coffees"
        assert message["content_type"] == "text/plain"


def test_a_body_comes_from_the_command_line_or_a_file(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(LARGE)
    ctl.ok("send", queue, "on the line")
    ctl.ok("send", queue, "-f", str(tmp_path / "body"))
    ctl.ok("send", queue, "-f", "-", stdin=b"on stdin")

    bodies = [ctl.ok("recv", queue).out for _ in range(3)]

    assert bodies == [b"on the line", LARGE, b"on stdin"]


def test_two_bodies_are_a_wrong_use(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"body")

    done = ctl("send", queue, "body", "-f", str(tmp_path / "body"))

    assert_refused(done, ExitCode.USAGE, "BODY and --file are two bodies")
    assert ctl("recv", queue).code == ExitCode.EMPTY


def test_an_empty_queue_gives_nothing_but_exit_code_3(ctl: Ctl, queue: str) -> None:
    assert ctl("recv", queue) == (3, b"", "")
    assert ctl("recv", queue, "--json") == (3, b"", "")


def test_recv_prints_everything_as_json(ctl: Ctl, queue: str) -> None:
    sent = ctl.ok("send", queue, "früh", "--json").json()
    ctl.ok("send", queue, stdin=b"\xff\x00")

    text, raw = ctl.ok("recv", queue, "--json"), ctl.ok("recv", queue, "--json")

    message = text.json()
    assert text.err == raw.err == ""
    assert sent == {"queue": queue, "id": message["id"]}
    assert set(message) == {
        "id", "state", "lease", "receive_count", "content_type", "published_at", "visible_at",
        "damaged", "body",
    }  # fmt: skip
    assert (message["body"], message["receive_count"], message["state"]) == ("früh", 1, "leased")
    assert message["published_at"] < message["visible_at"]
    assert base64.b64decode(raw.json()["body_base64"]) == b"\xff\x00"
    assert "body" not in raw.json()


def test_recv_writes_the_body_to_a_file(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("much longer than the new body")
    for _ in range(2):
        ctl.ok("send", queue, "body")

    for path in (old, new):
        done = ctl.ok("recv", queue, "-o", str(path))
        assert (done.out, RECEIPT.fullmatch(done.err) is not None) == (b"", True)

    assert (old.read_text(), new.read_text()) == ("body", "body")


def test_an_empty_queue_changes_no_file(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")

    assert [ctl("recv", queue, "-o", str(path)).code for path in (old, new)] == [3, 3]

    assert old.read_text() == "old"
    assert not new.exists()


def test_an_empty_body_makes_an_empty_file(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    for path in (old, new):
        ctl.ok("send", queue, "")
        ctl.ok("recv", queue, "-o", str(path))

    assert (old.read_bytes(), new.read_bytes()) == (b"", b"")


def test_a_file_that_cannot_be_written_costs_no_receive(
    ctl: Ctl, queue: str, tmp_path: Path
) -> None:
    ctl.ok("send", queue, "body")

    done = ctl("recv", queue, "-o", str(tmp_path / "missing" / "file"))

    assert_refused(done, ExitCode.ROOT, "No such file")
    assert ctl.ok("info", queue, "--json").json()["ready"] == 1


def test_ack_removes_a_received_message_for_good(ctl: Ctl, queue: str) -> None:
    ctl.ok("send", queue, "body")
    message = ctl.ok("recv", queue, "--json").json()

    done = ctl.ok("ack", queue, message["id"], "--lease", message["lease"])

    assert done.out.decode() == f"removed {message['id']}\n"
    assert counts(ctl, queue) == (0, 0, 0)
    again = ctl.ok("ack", queue, message["id"], "--json").json()
    assert again == {"queue": queue, "id": message["id"], "removed": True}


def test_ack_under_another_lease_changes_nothing(ctl: Ctl, queue: str) -> None:
    ctl.ok("send", queue, "body")
    message = ctl.ok("recv", queue, "--json").json()

    done = ctl("ack", queue, message["id"], "--lease", "00000000deadbeef")

    assert_refused(done, ExitCode.REFUSED, "does not have that lease")
    assert counts(ctl, queue) == (0, 1, 0)


def test_ack_takes_the_lease_with_its_quotes_too(ctl: Ctl, queue: str) -> None:
    ctl.ok("send", queue, "body")
    message = ctl.ok("recv", queue, "--json").json()

    ctl.ok("ack", queue, message["id"], "--lease", f'"{message["lease"]}"')

    assert counts(ctl, queue) == (0, 0, 0)


def test_info_counts_by_state(ctl: Ctl, queue: str) -> None:
    for _ in range(3):
        ctl.ok("send", queue, "body")
    ctl.ok("recv", queue)

    text = ctl.ok("info", queue).out.decode()

    head, row = (re.split(r"\s{2,}", line) for line in text.splitlines())
    assert head == ["name", "ready", "leased", "delayed", "oldest age"]
    assert row[:4] == [queue, "2", "1", "0"]
    assert re.fullmatch(r"\d+\.\ds", row[4])
    assert counts(ctl, queue) == (2, 1, 0)


def test_rm_deletes_a_queue_with_its_messages(ctl: Ctl, queue: str) -> None:
    ctl.ok("send", queue, "ready")
    ctl.ok("send", queue, "leased")
    ctl.ok("recv", queue)

    assert ctl.ok("rm", queue, "--yes").out.decode() == f"deleted {queue}\n"

    assert_refused(ctl("info", queue), ExitCode.NOT_FOUND, f"there is no queue {queue}")
    ctl.ok("create", queue)
    assert counts(ctl, queue) == (0, 0, 0)


def test_rm_refuses_where_nobody_can_be_asked(ctl: Ctl, queue: str) -> None:
    assert_refused(ctl("rm", queue), ExitCode.USAGE, "give --yes")

    assert ctl("info", queue).code == 0


@pytest.mark.parametrize(("reply", "code"), [("y", ExitCode.OK), ("n", ExitCode.REFUSED)])
def test_rm_asks_on_a_terminal(ctl: Ctl, queue: str, reply: str, code: ExitCode) -> None:
    ctl.ok("send", queue, "body")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "rm", queue, *ctl.way],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    os.write(ours, f"{reply}\n".encode())

    out, err = process.communicate(timeout=30)

    os.close(ours)
    os.close(theirs)
    assert process.returncode == code
    assert f"Delete queue {queue} with 1 message? [y/N]" in err.decode()
    assert out.decode() == (f"deleted {queue}\n" if reply == "y" else "")
    assert ctl("info", queue).code == (ExitCode.NOT_FOUND if reply == "y" else ExitCode.OK)


@pytest.mark.parametrize(
    "words", [["send", "absent", "x"], ["recv", "absent"], ["info", "absent"],
              ["ack", "absent", "1"], ["rm", "absent", "--yes"],
              ["purge", "absent", "--yes"]], ids=lambda words: str(words[0])
)  # fmt: skip
def test_a_missing_queue_is_named(ctl: Ctl, words: list[str]) -> None:
    assert_refused(ctl(*words), ExitCode.NOT_FOUND, "there is no queue absent")


def test_a_missing_message_is_named(ctl: Ctl, queue: str) -> None:
    assert_refused(ctl("ack", queue, "nope"), ExitCode.NOT_FOUND, "has no message nope")


@pytest.mark.parametrize(
    "words", [["create", "a/b"], ["send", "..", "x"], ["recv", "-o"], ["ack", "q", "a b"],
              ["ack", "q", "1", "--lease", "xyz"], ["ack", "q", "1", "--lease", "0" * 16],
              ["send", "q", "x", "--content-type", "a\nb"], ["recv", "q", "--visibility", "0"],
              ["peek", "q", "-n", "0"], ["frobnicate"], ["create"]], ids=str
)  # fmt: skip
def test_a_wrong_use_is_one_line_and_exit_code_2(ctl: Ctl, words: list[str]) -> None:
    assert_refused(ctl(*words), ExitCode.USAGE, "")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("delete", "rm for a queue, ack for a message"), ("publish", "send"), ("get", "recv"),
     ("help", "--help"), ("queues", "ls"), ("kick", "redrive"), ("browse", "peek"),
     ("reserve", "recv"), ("watch", "top"), ("term", "move"), ("start", "the command mq"),
     ("pause", "set QUEUE paused=true"), ("resume", "set QUEUE paused=false"),
     ("bind", "set QUEUE also=OTHERS")],
)  # fmt: skip
def test_a_command_of_another_name_names_what_was_meant(no_way: Ctl, word: str, meant: str) -> None:
    done = no_way(word, "orders")

    assert_refused(done, ExitCode.USAGE, f"Use {meant}.")


def test_a_missing_queue_names_the_command_that_makes_it(ctl: Ctl) -> None:
    done = ctl("send", "absent", "x")

    assert_refused(done, ExitCode.NOT_FOUND, "make it with `mqctl create absent`")


def counts(ctl: Ctl, queue: str) -> tuple[int, int, int]:
    info = ctl.ok("info", queue, "--json").json()
    return info["ready"], info["leased"], info["delayed"]


def test_exec_of_a_file_that_is_no_command_is_refused(
    by_http: Ctl, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")

    refused = by_http("exec", queue, "--", f"{tmp_path}/script")

    assert_refused(refused, ExitCode.USAGE, f"'{tmp_path}/script' is not executable")


def test_a_wrong_use_of_exec_is_refused(by_http: Ctl, by_root: Ctl, queue: str) -> None:
    missing = by_http("exec", queue, "--", "no-such-command")
    assert_refused(missing, ExitCode.USAGE, "there is no command 'no-such-command'")
    line = by_http("exec", queue, "--", "cat | wc -c")
    assert_refused(line, ExitCode.USAGE, "there is no command 'cat | wc -c'; write -- sh -c")
    assert_refused(by_root("exec", queue, "true"), ExitCode.USAGE, "it needs a server; use --url")
    own = by_http("exec", queue, "--visability", "4", "--", "true")
    assert_refused(own, ExitCode.USAGE, "'--visability'. Did you mean '--visibility'?")
    of_command = by_http("exec", queue, "grep", "-v", "x")
    assert_refused(of_command, ExitCode.USAGE, "No such option '-v'; write -- before COMMAND")
    for words in (["no-such-queue"], ["no-such-queue", "--dead-after", "2"]):
        absent = by_http("exec", *words, "true")
        assert_refused(absent, ExitCode.NOT_FOUND, "there is no queue no-such-queue")
