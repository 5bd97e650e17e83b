"""`mqctl touch` and `release`, and `recv --wait`: over HTTP and on the folders."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.wire import Wire

UNKNOWN = "00c0ffee00c0ffee"
LARGE = os.urandom(600_000)


def send_and_receive(ctl: Ctl, queue: str) -> tuple[str, str]:
    """The id and the lease."""
    ctl.ok("send", queue, "body")
    message = ctl.ok("recv", queue, "--json").json()
    return message["id"], message["lease"]


@pytest.mark.parametrize("guarded", [False, True])
def test_touch_moves_the_end_of_a_lease(ctl: Ctl, wire: Wire, queue: str, guarded: bool) -> None:
    message_id, lease = send_and_receive(ctl, queue)
    flags = ("--lease", lease) if guarded else ()

    touched = ctl.ok("touch", queue, message_id, "--visibility", "3600", *flags)

    ends = datetime.fromisoformat(touched.out.decode().strip())
    assert timedelta(seconds=3500) < ends - datetime.now(UTC) <= timedelta(seconds=3600)
    assert wire.remove(queue, message_id, if_match=f'"{lease}"').status == 202


def test_touch_prolongs_the_lease_of_a_large_message(ctl: Ctl, wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue, LARGE)
    wire.receive(queue)

    shown = ctl.ok("touch", queue, message_id, "--visibility", "60", "--json").json()

    assert shown["id"] == message_id
    assert datetime.fromisoformat(shown["visible_at"]) > datetime.now(UTC)


def test_touch_begins_no_lease_and_takes_no_other(ctl: Ctl, queue: str) -> None:
    message_id = ctl.ok("send", queue, "body").out.decode().strip()
    words = ("touch", queue, message_id, "--visibility", "60")

    assert_refused(ctl(*words), ExitCode.REFUSED, "has no lease: nobody has received it")
    assert_refused(ctl(*words, "--lease", UNKNOWN), ExitCode.REFUSED, "does not have that lease")
    assert ctl("touch", queue, "absent", "--visibility", "60").code == ExitCode.NOT_FOUND
    assert ctl("touch", queue, message_id).code == ExitCode.USAGE
    assert ctl("touch", queue, message_id, "--visibility", "0").code == ExitCode.USAGE


def test_release_gives_a_message_back_at_once(ctl: Ctl, wire: Wire, queue: str) -> None:
    message_id, lease = send_and_receive(ctl, queue)
    wrong = ctl("release", queue, message_id, "--lease", UNKNOWN)

    released = ctl.ok("release", queue, message_id, "--lease", lease)

    assert_refused(wrong, ExitCode.REFUSED, "does not have that lease")
    assert released.out.decode() == f"released {message_id}\n"
    assert wire.receive(queue).headers["x-receive-count"] == "2"
    assert ctl.ok("release", queue, message_id, "--json").json()["released"] is True
    assert wire.count(queue) == (1, 0)


def test_release_gives_several_back(ctl: Ctl, wire: Wire, queue: str) -> None:
    (one, lease), (two, _) = send_and_receive(ctl, queue), send_and_receive(ctl, queue)
    wrong = ctl("release", queue, one, two, "--lease", lease)

    done = ctl("release", queue, one, "absent", two)

    assert_refused(wrong, ExitCode.USAGE, "exactly one ID")
    assert (done.code, done.out.decode()) == (ExitCode.NOT_FOUND, f"released {one}\n")
    assert ctl.ok("release", queue, one, two).out.decode() == f"released {one}\nreleased {two}\n"
    assert wire.count(queue) == (2, 0)


@pytest.mark.parametrize(
    "words",
    [["release"], ["release", "q"], ["release", "q", "1", "--group", "lake"],
     ["release", "q", "1", "--force"], ["release", "--lease", UNKNOWN, "--group", "lake"]],
)  # fmt: skip
def test_release_takes_a_message_or_a_group(no_way: Ctl, words: list[str]) -> None:
    assert_refused(no_way(*words), ExitCode.USAGE, "either QUEUE and ID, or --group")


def test_recv_waits_for_a_message(ctl: Ctl, wire: Wire, queue: str) -> None:
    command = [sys.executable, "-m", "mq.ctl", *ctl.way, "recv", queue, "--wait", "60"]
    waiting = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours()
    )
    assert ctl("recv", queue, "--wait", "0.1").code == ExitCode.EMPTY

    wire.publish(queue, b"at last")

    out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (0, b"at last")
