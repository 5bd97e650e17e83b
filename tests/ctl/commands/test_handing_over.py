"""`mqctl exec --to`: what commands print goes to the next queue as their messages are removed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from mq.ctl.commands.command_runner import reason_for
from mq.names import is_dead_reason
from tests.support.mqctl import without_ours
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.wire import Wire, make_queue


@pytest.fixture
def target(wire: Wire) -> str:
    return make_queue(wire)


def begin(server: Server, queue: str, script: str, *flags: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mq.ctl", "--json", "exec", queue, "--url", server.url]
    return subprocess.Popen(
        [*command, *flags, "--", "sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip


def work_off(server: Server, queue: str, script: str, *flags: str) -> tuple[dict[str, Any], str]:
    """What `exec` counts and says."""
    process = begin(server, queue, script, "--until-empty", *flags)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out), err.decode()


def test_what_is_printed_is_published(server: Server, wire: Wire, queue: str, target: str) -> None:
    bodies = [b"one", bytes(range(256)) * 1024, b"skip"]
    for each in bodies:
        wire.publish(queue, each)
    script = 'test "$(head -c 4)" = skip && exit 0; echo noise >&2; echo $MQ_MESSAGE_ID; head -c 9'

    counted, said = work_off(server, queue, script, "--to", target, "--content-type=text/x-bill")

    assert (counted["done"], counted["failed"]) == (3, 0)
    assert said.count("noise") == 2
    assert (wire.count(queue), wire.count(target)) == ((0, 0), (2, 0))
    assert wire.receive(target).headers["content-type"] == "text/x-bill"


@pytest.mark.parametrize("script", ["echo half; exit 3", "echo half; kill -9 $$"])
def test_what_a_command_prints_before_it_fails_is_dropped(
    server: Server, wire: Wire, queue: str, target: str, script: str
) -> None:
    wire.publish(queue, b"one")

    counted, _ = work_off(server, queue, script, "--to", target)

    assert counted["done"] == 0
    assert wire.count(target) == (0, 0)
    assert sum(wire.count(queue)) == 1


def test_without_the_queue_nothing_is_run(server: Server, wire: Wire, queue: str) -> None:
    wire.publish(queue, b"one")
    process = begin(server, queue, "echo bill", "--to", f"{queue}-missing")

    _, err = process.communicate(timeout=60)

    assert process.returncode == 4
    assert f"{queue}-missing" in err.decode()
    assert wire.count(queue) == (1, 0)


def test_a_queue_that_is_deleted_meanwhile_keeps_the_message(
    server: Server, wire: Wire, queue: str, target: str
) -> None:
    wire.publish(queue, b"one")
    process = begin(server, queue, "sleep 1; echo bill", "--to", target)
    wait_until(lambda: wire.count(queue) == (0, 1))
    wire.request("DELETE", f"/{target}")

    assert process.stderr is not None
    said = process.stderr.readline().decode()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)

    assert f"printed what could not be published to {target}" in said
    assert sum(wire.count(queue)) == 1


def test_a_long_answer_is_cut_to_a_reason_that_a_dead_letter_can_carry() -> None:
    """A cut may fall on a space, and a long name of the command must leave the answer its room."""
    for length in range(240, 260):
        why = f"printed what could not be published: {'no ' * length}"[:length]
        for command in ("./bill", "./" + "x" * 300):
            reason = reason_for(command, why)
            assert is_dead_reason(reason)
            assert why[:200] in reason


def test_killed_at_any_time_each_message_has_one_result(
    server: Server, wire: Wire, queue: str, target: str, processes: list[Process]
) -> None:
    processes.append(start_mover(server.root))
    bodies = {b"%d" % number for number in range(60)}
    for each in sorted(bodies):
        wire.publish(queue, each)

    done = 0
    while done < len(bodies):
        process = begin(server, queue, "cat", "--to", target, "--visibility=1", "--concurrency=4")
        before = done
        # It may be killed before it has done anything, or within the last one.
        wait_until(lambda: wire.count(target)[0] > min(before + 9, len(bodies) - 1))
        process.kill()
        process.communicate()
        done = wire.count(target)[0]

    results = [wire.receive(target).body for _ in range(done)]
    assert sorted(results) == sorted(bodies)
    assert wire.count(queue) == (0, 0)


def test_a_type_without_a_queue_is_refused(server: Server, queue: str) -> None:
    process = begin(server, queue, "cat", "--content-type=text/plain")

    _, err = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "--to" in err.decode()
