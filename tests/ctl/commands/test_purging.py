"""`mqctl purge`, by both ways in."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server
from tests.support.token_files import make_token_file


@pytest.fixture
def stocked(ctl: Ctl, queue: str) -> str:
    """A queue with two messages ready, one leased, one delayed."""
    for body in ("leased", "ready", "ready too"):
        ctl.ok("send", queue, body)
    ctl.ok("recv", queue)
    ctl.ok("send", queue, "delayed", "--delay", "1000")
    return queue


def counts(ctl: Ctl, queue: str) -> tuple[int, int, int]:
    found = ctl.ok("info", queue, "--json").json()
    return found["ready"], found["leased"], found["delayed"]


def test_it_removes_all_messages_and_keeps_the_queue(ctl: Ctl, stocked: str) -> None:
    text = f"removed 4 messages from {stocked}\n"
    assert ctl.ok("purge", stocked, "--yes").out.decode() == text
    assert counts(ctl, stocked) == (0, 0, 0)


def test_with_ready_it_leaves_the_others(ctl: Ctl, stocked: str) -> None:
    document = ctl.ok("purge", stocked, "--ready", "--yes", "--json").json()

    assert document == {"queue": stocked, "purged": 2}
    assert counts(ctl, stocked) == (0, 1, 1)


def test_it_refuses_where_nobody_can_be_asked(ctl: Ctl, stocked: str) -> None:
    assert_refused(ctl("purge", stocked), ExitCode.USAGE, "give --yes")
    assert counts(ctl, stocked) == (2, 1, 1)


@pytest.mark.parametrize("words", [[], ["--ready"]], ids=["all", "ready"])
@pytest.mark.parametrize(("reply", "code"), [("y", ExitCode.OK), ("n", ExitCode.REFUSED)])
def test_it_asks_on_a_terminal(
    ctl: Ctl, stocked: str, words: list[str], reply: str, code: ExitCode
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "purge", stocked, *words, *ctl.way],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    os.write(ours, f"{reply}\n".encode())

    _, err = process.communicate(timeout=30)

    os.close(ours)
    os.close(theirs)
    what = "2 ready messages" if words else "4 messages"
    assert process.returncode == code
    assert f"Remove {what} from queue {stocked}? [y/N]" in err.decode()
    assert (counts(ctl, stocked) == (2, 1, 1)) is (reply == "n")


def test_a_token_that_may_not_count_purges_on_a_terminal_too(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    """There a bar shows how much is left, to those who may know it."""
    may_all, may_purge = "kT3vVt9xkq3mP2sYw8LrBg", "Zm9vIGJhciBiYXogcXV1eA"
    lines = f"chef read,write,admin * {may_all}", f"busboy admin * {may_purge}"
    tokens = make_token_file(tmp_path, *lines)
    way = f"--url={start_server(f'--token-file={tokens}').url}"
    for words in (["create", "orders"], ["send", "orders", "body"]):
        assert Ctl(way)(*words, MQCTL_TOKEN=may_all).code == 0
    ours, theirs = pty.openpty()

    done = subprocess.run(
        [sys.executable, "-m", "mq.ctl", "purge", "orders", "--yes", way], check=False,
        stdout=subprocess.PIPE, stderr=theirs, env=without_ours() | {"MQCTL_TOKEN": may_purge},
    )  # fmt: skip

    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout) == (0, b"removed 1 message from orders\n")
