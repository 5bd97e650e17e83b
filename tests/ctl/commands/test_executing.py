"""`mqctl exec`: what a command's end means for its message, even if one of the processes is
killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mqctl import run_to_the_end, without_ours
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.wire import Wire

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(server: Server) -> Iterator[Start]:
    """`start(queue, *flags, script)`: exec of a shell script; killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(queue: str, script: str, *flags: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mq.ctl", "--json", "exec", queue, "--url", server.url]
        started.append(
            subprocess.Popen(
                [*command, *flags, "--", "sh", "-c", script],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
            )
        )  # fmt: skip
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def mover(server: Server, processes: list[Process]) -> None:
    processes.append(start_mover(server.root))


def end(process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], str]:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out), err.decode()


def publish(wire: Wire, queue: str, *bodies: bytes) -> list[str]:
    return [wire.publish(queue, body) for body in bodies]


def test_a_message_is_removed_when_its_command_exits_with_0(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    bodies = [b"one", b"two\0", b"", bytes(range(256)) * 8192]
    ids = publish(wire, queue, *bodies)
    # It reads the large one late, after exec has looked whether it has ended.
    cat = f"test $MQ_MESSAGE_ID != {ids[-1]} || sleep 1.5; cat > {tmp_path}/$MQ_MESSAGE_ID"

    process = start(queue, f"{cat}; echo $MQ_RECEIVE_COUNT $MQ_QUEUE")

    wait_until(lambda: wire.count(queue) == (0, 0))
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert [(tmp_path / each).read_bytes() for each in ids] == bodies
    *echoed, summary = out.decode().splitlines()
    assert echoed == [f"1 {queue}"] * 4
    assert json.loads(summary) == {
        "queue": queue,
        "done": 4,
        "failed": 0,
        "given_back": 0,
        "dead": 0,
    }


def test_the_environment_tells_of_the_message(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    wire.request(
        "POST", f"/{queue}/messages", b"x", content_type="text/plain", **{"x-meta-colour": "blue"}
    )

    start(queue, f"env > {tmp_path}/.env; mv {tmp_path}/.env {tmp_path}/env")

    wait_until((tmp_path / "env").exists)
    variables = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert variables["MQ_CONTENT_TYPE"] == "text/plain"
    assert json.loads(variables["MQ_PROPERTIES"]) == {"x-meta-colour": "blue"}
    assert variables["MQ_PUBLISHED_AT"].startswith("20")


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        ("exit 75", "given_back", "exited with 75"),
        ("kill -9 $$", "given_back", "was killed (SIGKILL)"),
        ("kill -40 $$", "given_back", "was killed (signal 40)"),
        ("exit 3", "failed", "exited with 3"),
    ],
)
@pytest.mark.usefixtures("mover")
def test_another_end_gives_the_message_back(
    server: Server, wire: Wire, queue: str, start: Start, *, script: str, outcome: str, reason: str
) -> None:
    [message_id] = publish(wire, queue, b"body")

    process = start(queue, f"test $MQ_RECEIVE_COUNT -gt 1 || {{ {script}; }}")

    # While the mover gives it back, it is neither ready nor leased for a moment.
    wait_until((server.root / "remove" / f"{queue}:{message_id}").exists, 100)
    counts, err = end(process)
    assert counts == {"queue": queue, "done": 1, "failed": 0, "given_back": 0, "dead": 0} | {
        outcome: 1
    }
    assert f"mqctl: message {message_id}: sh {reason}; it returns in " in err


@pytest.mark.usefixtures("mover")
def test_a_message_that_fails_too_often_is_a_dead_letter(
    wire: Wire, queue: str, start: Start
) -> None:
    [message_id] = publish(wire, queue, b"body")
    wire.request("PUT", f"/{queue}?dead-letters={queue}.failed")

    process = start(queue, "exit 3", "--dead-after=2")

    wait_until(lambda: wire.request("GET", f"/{queue}.failed").status == 200)
    wait_until(lambda: wire.count(f"{queue}.failed") == (1, 0), 100)
    counts, _ = end(process)
    assert (counts["failed"], counts["dead"]) == (1, 1)
    dead = wire.receive(f"{queue}.failed")
    assert (dead.headers["x-message-id"], dead.body) == (message_id, b"body")
    assert dead.headers["x-dead-from"] == queue
    assert dead.headers["x-dead-reason"] == "sh exited with 3"


def test_a_failure_that_cannot_become_a_dead_letter_is_counted_and_says_why(
    wire: Wire, queue: str, start: Start
) -> None:
    wire.request("PUT", f"/{queue}.dead")
    for name in (queue, f"{queue}.dead"):
        wire.publish(name, name.encode(), x_message_id="order-1")

    process = start(queue, "exit 3", "--dead-after=1")

    assert process.stderr is not None
    said = process.stderr.readline().decode()
    counts, _ = end(process)
    assert said.startswith("mqctl: message order-1: sh exited with 3; not moved to ")
    assert f"queue {queue}.dead" in said
    assert "; it returns in " in said
    assert (counts["failed"], counts["dead"]) == (1, 0)


def test_a_command_of_any_name_makes_a_dead_letter(
    server: Server, wire: Wire, queue: str, tmp_path: Path
) -> None:
    publish(wire, queue, b"body")
    script = tmp_path / f"größe\n{'x' * 230}"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o700)
    flags = ["--url", server.url, "--dead-after=1", "--", str(script)]
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "exec", queue, *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip

    wait_until(lambda: wire.request("GET", f"/{queue}.dead").status == 200)
    wait_until(lambda: wire.count(f"{queue}.dead") == (1, 0))

    process.send_signal(signal.SIGTERM)
    assert b"0 done, 0 failed, 0 given back, 1 dead" in process.communicate(timeout=60)[0]
    reason = wire.receive(f"{queue}.dead").headers["x-dead-reason"]
    assert reason.startswith("gr\\xf6\\xdfe\\nxxx")
    assert reason.endswith("x exited with 3")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("echo it lacks a first line\n", "Exec format error: begin it with a line such as #!"),
        ("#!/bin/sh\r\n", "No such file or directory: the program that its first line names"),
    ],
)
def test_a_command_that_cannot_be_started_gives_the_message_back(
    server: Server, wire: Wire, queue: str, tmp_path: Path, *, content: str, why: str
) -> None:
    publish(wire, queue, b"body")
    script = tmp_path / "script"
    script.write_text(content)
    script.chmod(0o700)

    flags = ["--url", server.url, "--max=1", "--", str(script)]
    done = run_to_the_end("mq.ctl", "exec", queue, *flags)

    assert f"{script} cannot be started: {why}" in done.err
    assert done.out == b"0 done, 1 failed, 0 given back, 0 dead\n"


def test_what_runs_at_the_end_is_finished(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    publish(wire, queue, b"first", b"second")
    process = start(
        queue, f"touch {tmp_path}/began; until test -e {tmp_path}/go; do sleep .02; done"
    )
    wait_until((tmp_path / "began").exists)

    process.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    out, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert json.loads(out)["done"] + wire.count(queue)[0] == 2
    assert wire.count(queue)[1] == 0


def test_signals_that_come_together_let_what_runs_finish(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    """They come while the process is stopped, so that it heeds both at one moment."""
    publish(wire, queue, b"body")
    process = start(
        queue, f"touch {tmp_path}/began; until test -e {tmp_path}/go; do sleep .02; done"
    )
    wait_until((tmp_path / "began").exists)

    process.send_signal(signal.SIGSTOP)
    for each in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(each)
    process.send_signal(signal.SIGCONT)
    (tmp_path / "go").touch()
    out, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (0, b"")
    assert json.loads(out)["done"] == 1
    assert wire.count(queue)[:2] == (0, 0)


def test_exec_that_is_killed_takes_its_commands_with_it(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    [message_id] = publish(wire, queue, b"body")
    process = start(
        queue, f"echo $$ > {tmp_path}/.pid; mv {tmp_path}/.pid {tmp_path}/pid; exec sleep 600"
    )
    wait_until((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())

    process.kill()
    process.wait()

    wait_until(lambda: not _is_running(pid))
    assert wire.count(queue) == (0, 1)
    taken = wire.request("GET", f"/{queue}/messages?id={message_id}&visibility=0")
    assert taken.status < 300
    assert wire.count(queue) == (1, 0)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes()


def test_several_commands_run_at_a_time(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    publish(wire, queue, b"1", b"2", b"3")

    until_all = f"until test $(ls {tmp_path} | wc -l) = 3; do sleep .02; done"
    start(queue, f"touch {tmp_path}/$MQ_MESSAGE_ID; {until_all}", "--concurrency=3")

    wait_until(lambda: wire.count(queue) == (0, 0))


def test_a_command_whose_lease_is_lost_is_ended(
    wire: Wire, queue: str, start: Start, tmp_path: Path
) -> None:
    [message_id] = publish(wire, queue, b"body")
    process = start(queue, f"touch {tmp_path}/began; sleep 600", "--visibility=2")
    wait_until((tmp_path / "began").exists)

    assert wire.request("DELETE", f"/{queue}/messages/{message_id}").status == 202

    assert process.stderr is not None
    assert b"was ended because its lease was lost (SIGTERM)" in process.stderr.readline()
