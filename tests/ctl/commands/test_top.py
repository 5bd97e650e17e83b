"""`mqctl top`: a table where there is no terminal, and a real terminal by tmux."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mq.ctl.commands.top import flow_table
from mq.ctl.screen.flow import FlowMeter
from mq.ctl.ways.access import QueueCounts
from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server, wait_until
from tests.support.terminal import TmuxScreen
from tests.support.wire import Wire

INTERVAL = "--interval=0.1"


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server]) -> Server:
    return start_shared("--admin=127.0.0.1:0")


@pytest.fixture(params=["http", "root"])
def ctl(request: pytest.FixtureRequest, server: Server) -> Ctl:
    """Both ways in, and how the first one knows all queues."""
    if request.param == "root":
        return Ctl("--root", str(server.root))
    return WithAdmin(f"127.0.0.1:{server.admin_port}", "--url", server.url)


class WithAdmin(Ctl):
    """Has the address of the admin listener as a person would: in the environment."""

    def __init__(self, admin: str, *way: str) -> None:
        super().__init__(*way)
        self._admin = admin

    def __call__(self, *words: str, stdin: bytes = b"", **environment: str):  # type: ignore[no-untyped-def]
        return super().__call__(*words, stdin=stdin, MQCTL_ADMIN=self._admin, **environment)


def rows_of(text: str) -> dict[str, list[str]]:
    cells = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells}


def test_without_a_terminal_it_prints_one_table(ctl: Ctl, wire: Wire, queue: str) -> None:
    wire.request("PUT", f"/{queue}.dead")
    for name in (queue, queue, queue, f"{queue}.dead"):
        wire.publish(name)
    wire.receive(queue)
    wire.request("POST", f"/{queue}/messages?delay=600", b"later")

    rows = rows_of(ctl.ok("top", INTERVAL).out.decode())

    assert rows["name"] == ["ready", "leased", "delayed", "dead", "oldest age", "in/s", "out/s"]
    assert rows[queue][:4] == ["2", "1", "1", "1"]
    assert rows[queue][5:] == ["0", "0"]
    assert {queue, f"{queue}.dead"} <= rows.keys()
    [named] = ctl.ok("top", INTERVAL, "--json", f"{queue}.dead").lines()
    assert (named["queue"], named["ready"], named["in_rate"]) == (f"{queue}.dead", 1, 0)


def test_a_paused_queue_is_marked_where_its_numbers_are_seen(
    ctl: Ctl, wire: Wire, queue: str
) -> None:
    wire.request("PUT", f"/{queue}?paused=true")

    rows = rows_of(ctl.ok("top", INTERVAL).out.decode())
    [named] = ctl.ok("top", INTERVAL, "--json", queue).lines()
    wire.request("PUT", f"/{queue}?paused=")
    [flow] = FlowMeter().measure(0.0, [QueueCounts("o" * 85, 0, 0, 0, None, paused=True)], {})

    assert rows[queue][-1] == "paused"
    assert named["paused"]
    assert all(len(line) <= 80 for line in flow_table([flow], 80))


def test_a_queue_that_is_not_there_is_named(ctl: Ctl) -> None:
    assert_refused(ctl("top", INTERVAL, "absent"), ExitCode.NOT_FOUND, "there is no queue absent")


def test_named_queues_need_no_admin_listener(by_http: Ctl, wire: Wire, queue: str) -> None:
    wire.publish(queue)

    done = by_http("top", INTERVAL, queue, MQCTL_ADMIN="127.0.0.1:9")

    assert rows_of(done.out.decode())[queue][0] == "1"
    refused = by_http("top", INTERVAL, MQCTL_ADMIN="127.0.0.1:9")
    assert_refused(refused, ExitCode.UNAVAILABLE, "name another --admin")


# In a terminal


@pytest.fixture
def screen(ctl: Ctl, server: Server, tmp_path: Path) -> Iterator[TmuxScreen]:
    """A shell's."""
    environment = without_ours() | {"MQCTL_ADMIN": f"127.0.0.1:{server.admin_port}"}
    script = tmp_path / "top"
    words = " ".join([sys.executable, "-m", "mq.ctl", "top", INTERVAL, *ctl.way])
    script.write_text(
        f"stty -a > {tmp_path}/before\necho ready\n{words}\n"
        f"echo ended with $?\nstty -a > {tmp_path}/after\nexec sleep 600\n"
    )
    opened = TmuxScreen(tmp_path, ["sh", "-i", str(script)], environment)
    yield opened
    opened.close()


def test_it_shows_queues_as_they_change(screen: TmuxScreen, wire: Wire, queue: str) -> None:
    screen.wait_for(queue)
    assert "in/s" in screen.text()
    assert "q ends" in screen.text()

    for _ in range(3):
        wire.publish(queue)

    wait_until(lambda: rows_of(screen.text()).get(queue, [""])[0] == "3", 60)
    wire.remove(queue, wire.receive(queue).headers["x-message-id"])
    wait_until(lambda: rows_of(screen.text()).get(queue, [""])[0] == "2", 60)


@pytest.mark.parametrize(("key", "status"), [("q", 0), ("C-c", 130)])
def test_at_its_end_the_terminal_is_as_before(
    screen: TmuxScreen, queue: str, tmp_path: Path, *, key: str, status: int
) -> None:
    screen.wait_for(queue)

    screen.type(key)

    shown = screen.wait_for(f"ended with {status}")
    assert "ready" in shown
    assert "q ends" not in shown
    wait_until((tmp_path / "after").exists)
    wait_until(lambda: (tmp_path / "after").read_text() == (tmp_path / "before").read_text())


def test_it_follows_the_size_of_the_terminal(screen: TmuxScreen, queue: str) -> None:
    screen.wait_for(queue)

    screen.resize(40, 6)

    def fits() -> bool:
        lines = screen.text().splitlines()
        return lines[-1].startswith("q ends") and len(lines) == 6

    wait_until(fits, 60)
    assert all(len(line) <= 40 for line in screen.text().splitlines())


def test_a_long_name_leaves_the_numbers_on_the_screen(screen: TmuxScreen, wire: Wire) -> None:
    name = f"{uuid.uuid4().hex[:8]}{'-long' * 13}.dead"
    wire.request("PUT", f"/{name}")
    try:
        wire.publish(name)
        screen.resize(80, 24)

        def is_counted() -> bool:
            rows = rows_of(screen.text())
            return any(
                shown.startswith(name[:8]) and shown.endswith(".dead") and row[0] == "1"
                for shown, row in rows.items()
            )

        wait_until(is_counted, 60)
        assert "out/s" in screen.text()
        assert all(len(line) <= 80 for line in screen.text().splitlines())
    finally:
        wire.request("DELETE", f"/{name}")


def test_a_terminal_of_two_lines_does_not_end_it(screen: TmuxScreen, queue: str) -> None:
    screen.wait_for(queue)

    screen.resize(60, 2)

    wait_until(lambda: screen.text().splitlines()[-1].startswith("q ends"), 60)
    screen.resize(100, 20)
    screen.wait_for(queue)


def test_a_terminal_that_obeys_no_escapes_gets_one_table(ctl: Ctl, queue: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "top", INTERVAL, queue, *ctl.way],
        stdin=theirs, stdout=theirs, env=without_ours() | {"TERM": "dumb"},
    )  # fmt: skip
    os.close(theirs)

    shown = b""
    with suppress(OSError):  # It has ended.
        while True:
            shown += os.read(ours, 4096)

    assert process.wait(60) == 0
    assert queue in rows_of(shown.decode())
    assert b"\x1b" not in shown


def test_a_terminal_may_tell_no_size_and_give_several_keys_at_once(ctl: Ctl, queue: str) -> None:
    """Nobody has said how large it is, and the keys were typed during a look that took long."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "top", INTERVAL, queue, *ctl.way],
        stdin=theirs, stdout=theirs, env=without_ours(),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"q ends" not in shown:
        shown += os.read(ours, 4096)

    os.write(ours, b"jq")

    with suppress(OSError):  # It has ended.
        while True:
            os.read(ours, 4096)
    assert process.wait(60) == 0
    assert queue.encode() in shown
