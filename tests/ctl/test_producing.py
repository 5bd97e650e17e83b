"""`mqctl send` and `ack` with all that a producer can ask for, by both ways in."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server


def batch(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def bodies_in(ctl: Ctl, queue: str) -> list[str]:
    return [each["body"] for each in ctl.ok("peek", queue, "--json").lines()]


def test_an_own_id_makes_one_message_and_stands_for_one_body(ctl: Ctl, queue: str) -> None:
    for _ in range(2):
        assert ctl.ok("send", queue, "cake", "--id", "order-1").out == b"order-1\n"

    assert_refused(ctl("send", queue, "tart", "--id", "order-1"), ExitCode.REFUSED, "order-1")
    assert bodies_in(ctl, queue) == ["cake"]


def test_who_types_a_body_is_told_how_to_end_it(ctl: Ctl, queue: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "send", queue, "--id", "order-1", *ctl.way],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    os.write(ours, b"two coffees\n\x04")

    out, err = process.communicate(timeout=30)

    os.close(ours)
    os.close(theirs)
    assert (process.returncode, out) == (0, b"order-1\n")
    assert b"Ctrl-D" in err
    assert bodies_in(ctl, queue) == ["two coffees\n"]


def test_a_large_body_may_have_an_own_id(ctl: Ctl, queue: str) -> None:
    for _ in range(2):
        ctl.ok("send", queue, "--id", "large", stdin=bytes(200_000))

    assert ctl.ok("info", queue, "--json").json()["ready"] == 1


def test_what_filled_a_queue_is_sent_again(ctl: Ctl, queue: str) -> None:
    ctl.ok("set", queue, "max-messages=1")

    for _ in range(2):
        ctl.ok("send", queue, "cake", "--id", "order-1")

    refused = ctl("send", queue, "tart", "--id", "order-2")
    assert_refused(refused, ExitCode.TRY_AGAIN, "setting max-messages")


def test_a_delayed_message_is_hidden(ctl: Ctl, server: Server, queue: str) -> None:
    sent = ctl.ok("send", queue, "later", "--delay", "3600").out.decode().strip()

    due = (server.root / "delay" / f"{queue}:{sent}").stat().st_mtime
    assert 3500 < due - time.time() <= 3601
    assert ctl("recv", queue).code == ExitCode.EMPTY


def test_a_batch_is_published_whole_and_prints_its_ids(ctl: Ctl, queue: str) -> None:
    lines = batch({"body": "one"}, {"body": "two", "id": "two"}, *({"body": "x"},) * 5)

    ids = ctl.ok("send", queue, "--batch", stdin=lines).out.decode().split()

    assert ids[1] == "two"
    assert len(set(ids)) == 7
    assert sorted(bodies_in(ctl, queue)) == ["one", "two", *["x"] * 5]
    assert ctl.ok("send", queue, '{"body": "two", "id": "two"}', "--batch").out == b"two\n"


def test_a_message_goes_to_all_queues_or_to_none(ctl: Ctl, queue: str) -> None:
    others = [f"{queue}.bills", f"{queue}.kitchen"]
    also = ["--also", others[0], "--also", f"{others[1]},{queue}"]
    ctl.ok("create", others[0])
    missing = ctl("send", queue, "cake", *also)
    assert_refused(missing, ExitCode.NOT_FOUND, others[1])
    assert ctl("peek", queue).code == ExitCode.EMPTY
    ctl.ok("create", others[1])

    sent = [
        ctl.ok("send", queue, "cake", *also).out.decode().strip(),
        ctl.ok("send", queue, *also, "--id", "large", stdin=bytes(200_000)).out.decode().strip(),
        *ctl.ok("send", queue, *also, "--batch", stdin=batch({"body": "one"}, {"body": "two"}))
        .out.decode()
        .split(),
    ]

    assert sent[1] == "large"
    for each in (queue, *others):
        peeked = ctl.ok("peek", each, "-n", "9", "--json").lines()
        assert [line["id"] for line in peeked] == sent
        assert [line["body"] for line in peeked if line["id"] != "large"] == ["cake", "one", "two"]


def test_lines_of_a_batch_may_name_queues_of_their_own(ctl: Ctl, queue: str) -> None:
    other = f"{queue}.bills"
    lines = batch({"body": "order", "id": "1"}, {"body": "bill", "id": "2", "queue": other})
    assert_refused(ctl("send", queue, "--batch", stdin=lines), ExitCode.NOT_FOUND, other)
    assert ctl("peek", queue).code == ExitCode.EMPTY
    ctl.ok("create", other)

    sent = ctl.ok("send", queue, "--batch", "--json", stdin=lines).lines()

    assert sent == [{"queue": queue, "id": "1"}, {"queue": other, "id": "2"}]
    assert [bodies_in(ctl, each) for each in (queue, other)] == [["order"], ["bill"]]
    refused = ctl("import", queue, stdin=batch({"body": "bill", "queue": other}))
    assert_refused(refused, ExitCode.REFUSED, "line 1: all lines go to one queue here")


def test_lines_go_to_one_queue(ctl: Ctl, queue: str) -> None:
    done = ctl("send", queue, "--also", "bills", "--lines", stdin=b"one\n")

    assert_refused(done, ExitCode.USAGE, "--also does not go with --lines")


def test_a_batch_with_a_bad_line_publishes_nothing_and_names_it(ctl: Ctl, queue: str) -> None:
    done = ctl("send", queue, "--batch", stdin=batch({"body": "one"}, {"colour": "red"}))

    assert_refused(done, ExitCode.REFUSED, "line 2")
    assert ctl("recv", queue).code == ExitCode.EMPTY


def test_what_belongs_into_a_line_is_refused_beside_a_batch(ctl: Ctl, queue: str) -> None:
    done = ctl("send", queue, "--batch", "--id", "one", stdin=batch({"body": "one"}))

    assert_refused(done, ExitCode.USAGE, "--id")


def test_several_messages_are_acknowledged_at_once(ctl: Ctl, queue: str) -> None:
    ids = ctl.ok("send", queue, "--batch", stdin=batch(*({"body": "x"},) * 3)).out.decode().split()

    done = ctl.ok("ack", queue, *ids)

    assert done.out.decode().splitlines() == [f"removed {each}" for each in ids]
    assert ctl.ok("info", queue, "--json").json()["ready"] == 0
    assert ctl("ack", queue, ids[0], "never-published").code == ExitCode.NOT_FOUND
    assert_refused(
        ctl("ack", queue, *ids, "--lease", "0123456789abcdef"), ExitCode.USAGE, "one message"
    )


# A message a line


def test_each_line_is_a_message(ctl: Ctl, queue: str) -> None:
    lines = b"one\n  two \n\n \t\nthr\xff\xc3\xa9\r\n{}"

    done = ctl.ok("send", queue, "--lines", "--content-type", "text/x-line", stdin=lines)

    messages = ctl.ok("peek", queue, "--json").lines()
    assert [each["id"] for each in messages] == done.out.decode().split()
    assert [each.get("body", each.get("body_base64")) for each in messages] == [
        "one", "  two ", base64.b64encode(b"thr\xff\xc3\xa9\r").decode(), "{}",
    ]  # fmt: skip
    assert {each["content_type"] for each in messages} == {"text/x-line"}
    assert done.err == "published 4 messages\n"


def test_many_lines_are_sent_together_in_their_order(ctl: Ctl, queue: str) -> None:
    bodies = [f"line {number}" for number in range(2500)]

    done = ctl.ok("send", queue, "--lines", "--json", stdin="\n".join(bodies).encode())

    ids = [each["id"] for each in done.lines()]
    shown = ctl.ok("peek", queue, "-n", "3000", "--json").lines()
    assert [(each["id"], each["body"]) for each in shown] == list(zip(ids, bodies, strict=True))


def test_a_line_is_a_message_as_soon_as_it_is_there(by_http: Ctl, queue: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "send", queue, "--lines", "--delay=0", *by_http.way],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for body in (b"first\n", b"second\n"):
        process.stdin.write(body)
        process.stdin.flush()
        message_id = process.stdout.readline().decode().strip()
        assert by_http.ok("cat", queue, message_id).out == body.rstrip()

    process.send_signal(signal.SIGINT)

    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.strip() == b"published 2 messages"


def test_lines_go_with_neither_ids_nor_a_batch(ctl: Ctl, queue: str) -> None:
    for flags in (["--id", "1"], ["--batch"]):
        done = ctl("send", queue, "--lines", *flags, stdin=b"a\n")
        assert_refused(done, ExitCode.USAGE, "use import for both")
    assert_refused(ctl("send", "absent", "--lines", stdin=b"a\nb\n"), ExitCode.NOT_FOUND, "line 1")


@pytest.mark.parametrize("words", [["import"], ["send", "--lines"]], ids=" ".join)
@pytest.mark.parametrize("text", [b"", b"\n \n"])
def test_a_missing_queue_is_named_even_if_there_is_nothing_to_send(
    ctl: Ctl, queue: str, words: list[str], text: bytes
) -> None:
    assert_refused(ctl(*words, "absent", stdin=text), ExitCode.NOT_FOUND, "no queue absent")
    ctl.ok(*words, queue, stdin=text)
