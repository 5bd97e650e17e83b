"""`mqctl`: what one way in can do alone, how a way is chosen, and servers that answer badly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mq import __version__
from mq.ctl.cli import CTL_EXIT_CODES
from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server

LARGE = bytes(2_000_000)


# By root alone


def test_a_queue_lives_without_any_server(tmp_path: Path) -> None:
    ctl = Ctl("--root", str(tmp_path / "root"))

    ctl.ok("create", "orders")
    ctl.ok("send", "orders", "two coffees")
    message = ctl.ok("recv", "orders", "--json").json()
    ctl.ok("ack", "orders", message["id"], "--lease", message["lease"])

    assert message["body"] == "two coffees"
    assert ctl("recv", "orders").code == ExitCode.EMPTY
    assert ctl.ok("fsck").out == b""


_ON_A_BROKEN_DISK = """
import errno, os
from mq.ctl import main
from mq.ctl.ways.messages import _FirstBytes

def fail(*_):
    raise OSError(errno.EIO, os.strerror(errno.EIO))

_FirstBytes.read = fail
main()
"""


def test_an_export_names_a_message_whose_body_the_disk_cannot_read(tmp_path: Path) -> None:
    way = ("--root", str(tmp_path / "mq"))
    by_root = Ctl(*way)
    by_root.ok("create", "orders")
    message_id = by_root.ok("send", "orders", stdin=bytes(200_000)).out.decode().strip()

    done = subprocess.run(
        [sys.executable, "-c", _ON_A_BROKEN_DISK, "export", "orders", *way],
        check=False, capture_output=True, text=True, env=without_ours(),
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (ExitCode.UNAVAILABLE, "")
    told = f"mqctl: the body of message {message_id} cannot be read: Input/output error"
    assert done.stderr.startswith(told)


def test_visibility_is_as_long_as_asked(ctl: Ctl, server: Server, queue: str) -> None:
    sent = ctl.ok("send", queue, "body").out.decode().strip()

    ctl.ok("recv", queue, "--visibility", "86400")

    status = (server.root / "delay" / f"{queue}:{sent}").stat()
    assert 86_390e9 < status.st_mtime_ns - status.st_ctime_ns < 86_410e9


@pytest.mark.parametrize("words", ["fsck", "release --group lake"])
def test_what_http_cannot_do_yet_names_the_way_out(by_http: Ctl, words: str) -> None:
    assert_refused(by_http(*words.split()), ExitCode.USAGE, "--root")


# The choice


def test_the_way_may_stand_before_or_behind_the_command(server: Server, queue: str) -> None:
    way = ("--root", str(server.root), "--json")

    behind = Ctl(*way).ok("info", queue)
    before = Ctl().ok(*way, "info", queue)

    assert behind.json() == before.json() | {"oldest_age_seconds": None}


def test_the_environment_chooses_a_way_and_a_flag_wins(server: Server, queue: str) -> None:
    nowhere = "http://127.0.0.1:1"
    root = str(server.root)
    info = ("info", queue)

    assert Ctl()(*info, MQ_URL=server.url).code == 0
    assert Ctl()(*info, MQCTL_ROOT=root).code == 0
    assert Ctl("--root", root)(*info, MQ_URL=nowhere).code == 0
    assert Ctl("--url", server.url)(*info, MQCTL_ROOT="/nowhere").code == 0
    assert Ctl()("--url", server.url, *info, MQ_URL=nowhere).code == 0
    assert Ctl("--url", server.url)("--url", nowhere, *info).code == 0


def test_two_ways_at_once_are_a_wrong_use(server: Server, queue: str) -> None:
    root = str(server.root)

    by_flags = Ctl("--root", root, "--url", server.url)("info", queue)
    by_variables = Ctl()("info", queue, MQ_URL=server.url, MQCTL_ROOT=root)

    for done in (by_flags, by_variables):
        assert_refused(done, ExitCode.USAGE, "choose one")


def test_a_variable_that_may_mean_another_server_is_refused(server: Server, queue: str) -> None:
    done = Ctl()("purge", queue, "--yes", MQ_URL=server.url, MQCTL_URL="http://127.0.0.1:1")

    assert_refused(done, ExitCode.USAGE, "unknown variable MQCTL_URL; mqctl takes MQ_URL, ")
    assert Ctl()("info", queue, MQ_URL=server.url, MQCTL_URL="").code == 0


def test_the_root_of_a_server_is_not_taken_for_a_way(server: Server) -> None:
    done = Ctl()("fsck", MQ_ROOT=str(server.root))

    assert_refused(done, ExitCode.USAGE, "use --root")


def test_without_a_command_it_shows_its_help(no_way: Ctl) -> None:
    done = no_way()

    assert (done.code, done.out) == (ExitCode.USAGE, b"")
    assert done.err == no_way.ok("--help").out.decode()
    for code, meaning in CTL_EXIT_CODES.items():
        assert f"{code.value:>4}  {meaning}" in done.err
    assert no_way.ok("--version").out.decode() == f"mqctl {__version__}\n"
