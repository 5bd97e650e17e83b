"""`mqctl exec` that ends by itself: what cron and builds start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mq.errors import ExitCode
from tests.support.mqctl import Done, assert_refused, run_to_the_end, without_ours
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, make_queue


def execute(server: Server, queue: str, *words: str) -> Done:
    """Run exec until it ends."""
    return run_to_the_end("mq.ctl", "--url", server.url, "--json", "exec", queue, *words)


def counted(done: Done) -> dict[str, Any]:
    assert done.code == 0, done
    found: dict[str, Any] = json.loads(done.out.splitlines()[-1])
    return {name: number for name, number in found.items() if number and name != "queue"}


def test_what_is_ready_is_worked_off(server: Server, wire: Wire, queue: str) -> None:
    for body in (b"one\n", b"two\n", b"three\n"):
        wire.publish(queue, body)

    done = execute(server, queue, "--until-empty", "-c2", "--", "cat")

    assert counted(done) == {"done": 3}
    assert sorted(done.out.splitlines()[:-1]) == [b"one", b"three", b"two"]
    assert wire.count(queue) == (0, 0)


def test_an_empty_queue_is_no_failure(server: Server, queue: str) -> None:
    assert counted(execute(server, queue, "--until-empty", "--", "cat")) == {}


def test_what_fails_is_not_waited_for(server: Server, wire: Wire, queue: str) -> None:
    wire.publish(queue, b"body")

    done = execute(server, queue, "--until-empty", "--", "false")

    assert counted(done) == {"failed": 1}
    assert "false exited with 1; it returns in " in done.err
    assert wire.count(queue) == (0, 1)


def test_no_more_messages_are_received_than_asked_for(
    server: Server, wire: Wire, queue: str
) -> None:
    for _ in range(3):
        wire.publish(queue, b"body")

    assert counted(execute(server, queue, "--max=2", "-c2", "--", "true")) == {"done": 2}
    assert wire.count(queue) == (1, 0)
    both = ("--max=2", "--until-empty", "--", "true")
    assert counted(execute(server, queue, *both)) == {"done": 1}


def test_other_queues_are_worked_off_when_those_before_have_nothing(
    server: Server, wire: Wire, queue: str
) -> None:
    usual, bulk = make_queue(wire), make_queue(wire)
    for each in (bulk, usual, queue):
        wire.publish(each, b"1\n")
        wire.publish(each, b"2\n")

    others = (f"--then={usual}", f"--then={bulk}", f"--then={usual}")
    script = ("sh", "-c", "echo $MQ_QUEUE $(cat)")
    done = execute(server, queue, "--until-empty", *others, "--", *script)

    assert counted(done) == {"done": 6}
    said = [f"{each} {body}".encode() for each in (queue, usual, bulk) for body in "12"]
    assert done.out.splitlines()[:-1] == said


def test_each_of_several_queues_has_its_own_dead_letters(
    server: Server, wire: Wire, queue: str
) -> None:
    other = make_queue(wire)
    wire.request("PUT", f"/{other}?dead-letters={other}.failed")
    wire.publish(queue, b"one")
    wire.publish(other, b"two")

    flags = ("--until-empty", "--dead-after=1", f"--then={other}")
    done = execute(server, queue, *flags, "--", "false")

    assert counted(done) == {"dead": 2}
    assert wire.count(f"{queue}.dead") == wire.count(f"{other}.failed") == (1, 0)


def test_a_queue_that_is_not_there_is_a_failure(server: Server) -> None:
    done = execute(server, "absent", "--until-empty", "--", "true")

    assert_refused(done, ExitCode.NOT_FOUND, "there is no queue absent")


def test_a_signal_lets_what_runs_finish(
    server: Server, wire: Wire, queue: str, tmp_path: Path
) -> None:
    """Though others have found nothing, and wait for what may come."""
    wire.publish(queue, b"body")
    script = f"touch {tmp_path}/began; until test -e {tmp_path}/go; do sleep .02; done"
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "--json", "exec", queue, "--url", server.url,
         "--until-empty", "-c3", "--", "sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    try:
        wait_until((tmp_path / "began").exists, 100)
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["done"] == 1
    assert wire.count(queue) == (0, 0)
