"""Properties with `mqctl`: sent, shown, exported, imported and redriven, both ways in."""

from __future__ import annotations

import json

import pytest

from mq.client.errors import Problem, Refused
from mq.ctl.ways.access import exit_code_of
from mq.ctl.ways.connect import failure_of
from mq.errors import ExitCode, PropertiesUnsupported
from mq.properties import MAX_PROPERTIES_BYTES, MAX_STORED_PROPERTIES_BYTES
from tests.support.messages import read_seal, sealed_with, write_message
from tests.support.mqctl import Ctl, assert_refused
from tests.support.processes import Server
from tests.support.properties import PROPERTIES
from tests.support.vsqs import run_command
from tests.support.wire import Wire, make_queue

FLAGS = [word for name, value in PROPERTIES.items() for word in ("--property", f"{name}={value}")]
SHOWN = [f"{name}: {value}" for name, value in sorted(PROPERTIES.items())]


@pytest.mark.parametrize("size", [4, 200_000])
def test_properties_are_sent_and_shown(ctl: Ctl, server: Server, queue: str, size: int) -> None:
    body = b"x" * size
    sent = ctl.ok("send", queue, *FLAGS, stdin=body).out.decode().strip()

    looked = ctl.ok("peek", queue, sent)
    listed = ctl.ok("peek", queue, "--json").json()
    received = ctl.ok("recv", queue)

    for shown in (looked, received):
        assert shown.out == body
        assert sorted(shown.err.splitlines()[1:]) == SHOWN
    assert (listed["properties"], listed["body"]) == (PROPERTIES, body.decode())
    assert read_seal(server.root / "delay" / f"{queue}:{sent}").length == size


def test_json_of_recv_has_them(ctl: Ctl, queue: str) -> None:
    ctl.ok("send", queue, "one", "--property", "X-Meta-Shop=a=b c")
    ctl.ok("send", queue, "two")

    first, second = (ctl.ok("recv", queue, "--json").json() for _ in range(2))

    assert first["properties"] == {"x-meta-shop": "a=b c"}
    assert "properties" not in second


@pytest.mark.parametrize("size", [4, 200_000])
@pytest.mark.parametrize("flags", [[], ["--remove"]])
def test_they_stay_through_export_and_import(
    ctl: Ctl, wire: Wire, queue: str, size: int, flags: list[str]
) -> None:
    other = make_queue(wire)
    ctl.ok("send", queue, *FLAGS, stdin=b"x" * size)
    ctl.ok("send", queue, "plain")

    exported = ctl.ok("export", queue, *flags)
    for _ in range(2):
        ctl.ok("import", other, stdin=exported.out)

    lines = [ctl.ok("recv", other, "--json").json() for _ in range(2)]
    assert [line.get("properties") for line in exported.lines()] == [PROPERTIES, None]
    assert [line.get("properties") for line in lines] == [PROPERTIES, None]
    assert lines[0]["body"] == "x" * size
    assert ctl("recv", other).code == ExitCode.EMPTY


def test_they_stay_through_redrive(ctl: Ctl, by_http: Ctl, queue: str) -> None:
    by_http.ok("create", f"{queue}.dead")
    by_http.ok("send", f"{queue}.dead", "one", *FLAGS)

    ctl.ok("redrive", queue)

    assert ctl.ok("recv", queue, "--json").json()["properties"] == PROPERTIES


def test_a_batch_takes_them_in_its_lines(ctl: Ctl, queue: str) -> None:
    line = b'{"body": "one", "properties": {"x-meta-shop": "north"}}'
    ctl.ok("send", queue, "--batch", stdin=line)

    assert ctl.ok("recv", queue, "--json").json()["properties"] == {"x-meta-shop": "north"}
    done = ctl("send", queue, "--batch", "--property", "ce-id=1", stdin=line)
    assert done.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("flags", "detail"),
    [
        (["x-meta-a"], "NAME=VALUE"),
        (["color=red"], "'color'"),
        (["x-meta-a=caf\xe9"], "'x-meta-a'"),
        (["ce-id=1", "CE-Id=2"], "given twice"),
        (["baggage=" + "x" * MAX_PROPERTIES_BYTES], "8192"),
    ],
)
def test_wrong_ones_are_a_wrong_argument(
    ctl: Ctl, queue: str, flags: list[str], detail: str
) -> None:
    words = [word for flag in flags for word in ("--property", flag)]

    done = ctl("send", queue, "one", *words)

    assert done.code == ExitCode.USAGE
    assert detail in done.err
    assert ctl("recv", queue).code == ExitCode.EMPTY


@pytest.mark.parametrize("command", [["send", "--batch"], ["import"]])
def test_too_many_in_a_line_are_refused_and_the_line_is_named(
    ctl: Ctl, queue: str, command: list[str]
) -> None:
    """More than any process stores."""
    line = {"body": "one", "properties": {"x-meta-long": "x" * (MAX_STORED_PROPERTIES_BYTES + 1)}}

    done = ctl(command[0], queue, *command[1:], stdin=json.dumps(line).encode())

    assert_refused(done, ExitCode.REFUSED, "line 1")
    assert ctl("recv", queue).code == ExitCode.EMPTY


def test_a_file_system_that_keeps_none_refuses_both_ways() -> None:
    said = Problem("urn:mq:problem:properties-unsupported", "Not here", 501, "none here")

    over_http = failure_of(Refused("none here", said), "http://mq", "--url")

    assert over_http.exit_code == exit_code_of(PropertiesUnsupported("none")) == ExitCode.REFUSED


def test_more_than_headers_carry_is_never_left_out(
    server: Server, wire: Wire, by_http: Ctl, by_root: Ctl, queue: str
) -> None:
    """Another process than the server may store it."""
    properties = {"ce-id": "1", "x-meta-long": "x" * 200_000}
    seal, data = sealed_with(b"body", properties)
    write_message(server.root / "queues" / queue / "by-hand", data, seal=seal)
    other = make_queue(wire)

    over_http, on_folders = by_http.ok("export", queue), by_root.ok("export", queue)
    taken = by_http("export", queue, "--remove")
    refused = by_http("import", other, stdin=on_folders.out)
    by_root.ok("import", other, stdin=on_folders.out)

    assert over_http.lines() == on_folders.lines()
    assert on_folders.lines()[0]["properties"] == properties
    assert_refused(taken, ExitCode.REFUSED, "1 properties")
    assert refused.code == ExitCode.REFUSED
    assert "8192" in refused.err
    assert by_root.ok("recv", other, "--json").json()["properties"] == properties


def test_vsqs_refuses_what_it_cannot_keep(ctl: Ctl, queue: str, server: Server) -> None:
    ctl.ok("send", queue, "one", "--property", "content-encoding=gzip")
    target = server.root.parent / f"vsqs-{queue}"

    done = run_command("vsqs", "import", target, stdin=ctl.ok("export", queue).out)

    assert done.code == ExitCode.REFUSED
    assert "properties" in done.err
