"""What others chose the bytes of does a terminal no harm."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from mq.command.logs import Once, configure_logs
from tests.support.breaking import Breaking
from tests.support.mqctl import Ctl, without_ours
from tests.support.vsqs import run_command

HARMFUL = b"one\ttwo\n\x1b]0;title\x07\x1b[2J\r\x9b\xff caf\xc3\xa9"
HARMLESS = r"one	two" + "\n" + r"\x1b]0;title\x07\x1b[2J\r\x9b\xff café"


def on_a_terminal(module: str, *words: str | Path) -> str:
    """What a terminal gets from stdout and stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words], stdout=theirs, stderr=theirs,
        stdin=subprocess.DEVNULL, env=without_ours(),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        # All who had it open have ended.
        pass
    os.close(ours)
    assert process.wait(30) is not None
    return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


@pytest.fixture
def ctl(tmp_path: Path) -> Ctl:
    made = Ctl("--root", str(tmp_path / "mq"))
    made.ok("create", "jobs")
    made.ok("send", "jobs", "--id", "a-1", stdin=HARMFUL)
    return made


@pytest.mark.parametrize("command", [("peek", "jobs", "a-1"), ("recv", "jobs")], ids=" ".join)
def test_a_body_is_raw_where_stdout_is_no_terminal_and_with_raw(
    ctl: Ctl, command: tuple[str, ...]
) -> None:
    peek = ("peek", "jobs", "a-1")
    assert ctl.ok(*peek).out == HARMFUL
    raw = on_a_terminal("mq.ctl", *ctl.way, *peek, "--raw")
    shown = on_a_terminal("mq.ctl", *ctl.way, *command)

    assert raw.encode("utf-8", "surrogateescape").endswith(HARMFUL)
    assert shown.endswith(f"{HARMLESS}\n")
    assert "\x1b" not in shown


def test_what_vsqs_receives_too(tmp_path: Path) -> None:
    run_command("vsqs", "publish", tmp_path / "q", stdin=HARMFUL)

    assert on_a_terminal("vsqs", "receive", tmp_path / "q", "--visibility=0").endswith(
        f"{HARMLESS}\n"
    )
    raw = on_a_terminal("vsqs", "receive", tmp_path / "q", "--raw")
    assert raw.encode("utf-8", "surrogateescape").endswith(HARMFUL)


def test_what_is_exported_harms_no_terminal_and_comes_back(ctl: Ctl, tmp_path: Path) -> None:
    body = HARMFUL.decode(errors="ignore").encode() + "\x9b31m\x7f".encode()
    ctl.ok("create", "text")
    ctl.ok("send", "text", stdin=body)
    run_command("vsqs", "publish", tmp_path / "q", stdin=body)

    shown = on_a_terminal("mq.ctl", *ctl.way, "export", "text")
    shown += on_a_terminal("vsqs", "export", tmp_path / "q")
    lines = ctl.ok("export", "text").out

    assert len(lines.splitlines()) == 1
    assert [each for each in shown if not each.isprintable() and each != "\n"] == []
    assert json.loads(lines)["body"] == body.decode()


def test_a_line_that_has_ended_is_not_ended_again(ctl: Ctl) -> None:
    ctl.ok("send", "jobs", "--id", "b-1", stdin=b"one line\n")

    assert on_a_terminal("mq.ctl", *ctl.way, "cat", "jobs", "b-1") == "one line\n"


def test_an_error_names_nothing_raw(ctl: Ctl) -> None:
    done = ctl("recv", "jobs", "-o", "/absent\x1b[2J/x")
    line = ctl("import", "jobs", stdin=b'{"body": "a", "\\u001b[2J": 1}')

    assert "\\x1b[2J" in done.err
    assert "\x1b" not in done.err + line.err


def answer(status: str, document: object) -> bytes:
    body = json.dumps(document).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_what_a_server_says_beside_the_answer_does_no_harm(ctl: Ctl) -> None:
    moves = [{"moved": 1, "taken": ["a\x1b[2J"]}, {"moved": 0}]
    moving = Breaking([answer("200 OK", each) for each in moves])
    why = {"type": "urn:mq:problem:unavailable", "title": "", "detail": "b\x1b[2J"}
    refusing = Breaking([answer("503 Service Unavailable", why)])
    work = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "exec", "jobs", "--url", refusing.url, "--", "true"],
        stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    assert work.stderr is not None

    said = work.stderr.readline().decode()
    work.kill()
    work.communicate()
    moved = Ctl("--url", moving.url)("move", "jobs", "more", "-n", "2")
    ctl.ok("set", "jobs", "note.colour=c\x1b[2J")
    settings = ctl.ok("info", "jobs").out.decode()

    for text, harmless in ((said, "b"), (moved.err, "a"), (settings, "c")):
        assert rf"{harmless}\x1b[2J" in text
        assert "\x1b" not in text
    moving.close()
    refusing.close()


def test_a_line_of_the_log_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "mq")

    structlog.get_logger().warning("file left where it is", name="a\x1b[2J\rb\nc\x9b")

    [line] = capsys.readouterr().err.splitlines()
    assert r"name=a\x1b[2J\rb\nc\x9b" in line


def test_what_is_wrong_with_a_file_is_news_again_if_it_is_something_else() -> None:
    """A mover that cannot place a message says so once, and also once its disk is read-only."""
    told: list[tuple[str, str]] = []
    report = Once(lambda name, why: told.append((name, why)))
    reasons = ["no folder", "no folder", "read-only", "no folder", "read-only"]

    for why in reasons:
        report("orders:1", why)

    assert told == [("orders:1", "no folder"), ("orders:1", "read-only")]

    report.forget("orders:1", "no folder")
    for why in reasons:
        report("orders:1", why)

    assert told[2:] == [("orders:1", "no folder")]


def test_a_log_that_is_silent_from_now_on_says_so() -> None:
    told: list[tuple[str, str]] = []
    report = Once(lambda name, why: told.append((name, why)))

    for number in range(10_002):
        report(f"orders:{number}", "no folder")

    assert told[-2:] == [
        ("orders:9999", "no folder"),
        ("any other", "10000 were logged: no more until a restart"),
    ]
