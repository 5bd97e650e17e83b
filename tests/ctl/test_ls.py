"""`mqctl ls`, on the folders and over HTTP, where the admin listener knows all queues."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.certificates import make_certificate
from tests.support.mqctl import Ctl, assert_refused
from tests.support.processes import Server

WAYS = pytest.mark.parametrize("way", ["http", "root"])


def _ls(server: Server, way: str, *words: str) -> list[str]:
    if way == "http":
        admin = f"127.0.0.1:{server.admin_port}"
        done = Ctl("--url", server.url).ok("ls", "--admin", admin, *words)
    else:
        done = Ctl("--root", str(server.root)).ok("ls", *words)
    return done.out.decode().splitlines()


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--admin=127.0.0.1:0")


@WAYS
def test_ls_lists_every_queue(server: Server, way: str) -> None:
    ctl = Ctl("--url", server.url)
    for queue in ("orders", "orders.dead"):
        ctl.ok("create", queue)
    for _ in range(12):
        ctl.ok("send", "orders", "body")
    ctl.ok("recv", "orders")

    head, *lines = _ls(server, way)

    shown = {line.split()[0]: line.split()[1:] for line in lines}
    assert re.split(r"\s{2,}", head.strip()) == ["name", "ready", "leased", "delayed", "oldest age"]
    assert shown["orders"][:3] == ["11", "1", "0"]
    assert shown["orders.dead"] == ["0", "0", "0", "-"]
    assert len({len(line) for line in [head, *lines]}) == 1


@WAYS
def test_ls_prints_a_document_for_each_queue_with_json(server: Server, way: str) -> None:
    ctl = Ctl("--url", server.url)
    ctl.ok("create", "orders")
    ctl.ok("send", "orders", "body")

    (document,) = map(json.loads, _ls(server, way, "--json"))

    assert document.pop("oldest_age_seconds") > 0
    assert document == {
        "queue": "orders", "ready": 1, "leased": 0, "delayed": 0, "paused": False,
    }  # fmt: skip


@WAYS
def test_ls_marks_the_queues_that_are_paused(server: Server, way: str) -> None:
    ctl = Ctl("--url", server.url)
    ctl.ok("create", "orders", "paused=true")
    ctl.ok("create", "returns")

    _, orders, returns = _ls(server, way)
    documents = map(json.loads, _ls(server, way, "--json"))

    assert re.split(r"\s{2,}", orders) == ["orders", "0", "0", "0", "-", "paused"]
    assert re.split(r"\s{2,}", returns) == ["returns", "0", "0", "0", "-"]
    assert {each["queue"]: each["paused"] for each in documents} == {
        "orders": True, "returns": False,
    }  # fmt: skip
    for access in (ctl, Ctl("--root", str(server.root))):
        assert access.ok("info", "orders", "--json").json()["paused"]
        _, counts, *settings = access.ok("info", "orders").out.decode().splitlines()
        assert (counts.split(), settings) == (orders.split(), ["paused=true"])


@WAYS
def test_ls_of_a_root_without_queues_is_silent(server: Server, way: str) -> None:
    assert _ls(server, way) == []


def test_ls_where_no_admin_listener_is_names_the_flag(server: Server) -> None:
    by_http = Ctl("--url", server.url)

    assert_refused(by_http("ls", "--admin", "127.0.0.1:1"), ExitCode.UNAVAILABLE, "--admin")
    assert_refused(by_http("ls", "--admin", "no address"), ExitCode.USAGE, "no address")


def test_the_other_port_of_a_server_is_told_from_a_missing_queue(server: Server) -> None:
    main, admin = f"127.0.0.1:{server.port}", f"http://127.0.0.1:{server.admin_port}"
    listing = Ctl("--url", server.url)("ls", "--admin", main)
    receiving = Ctl("--url", admin)("recv", "orders")

    assert_refused(listing, ExitCode.UNAVAILABLE, "but not an admin listener; name another --admin")
    assert_refused(receiving, ExitCode.UNAVAILABLE, f"{admin} is a port of MQ, but not the main")


def test_the_servers_variable_does_not_win_over_the_url_of_a_command(server: Server) -> None:
    """MQ_ADMIN says where a server listens, MQCTL_ADMIN and --admin where mqctl asks."""
    admin, nowhere = f"127.0.0.1:{server.admin_port}", "127.0.0.1:1"
    by_flag = Ctl("--url", server.url)

    assert by_flag("ls", MQ_ADMIN=nowhere, MQCTL_ADMIN=admin).code == 0
    assert by_flag("ls", "--admin", admin, MQ_ADMIN=nowhere, MQCTL_ADMIN=nowhere).code == 0
    assert nowhere not in by_flag("ls", MQ_ADMIN=nowhere).err
    for listens in (admin, f"0.0.0.0:{server.admin_port}", f":{server.admin_port}"):
        assert Ctl()("ls", MQ_URL=server.url, MQ_ADMIN=listens).code == 0
    assert "127.0.0.1:8081" in Ctl()("ls", MQ_URL=server.url, MQ_ADMIN="off", MQCTL_ADMIN="").err


def test_ls_reaches_an_admin_listener_with_tls_beside_a_socket(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    pair = make_certificate(tmp_path, "localhost")
    server = start_server(
        "--admin=127.0.0.1:0", *pair.flags(),
        f"--socket={tmp_path}/s",
    )  # fmt: skip
    admin = f"localhost:{server.admin_port}"
    by_socket = Ctl("--url", f"unix:{tmp_path}/s", "--cacert", str(pair.cert))

    assert by_socket.ok("ls", "--admin", admin).out == b""
    assert by_socket.ok("ls", "--admin", f"https://{admin}").out == b""


def test_a_url_with_a_path_is_refused_with_the_one_to_use(server: Server) -> None:
    refused = Ctl("--url", f"{server.url}/orders")("recv", "orders")

    told = f"{server.url}/orders is a port of MQ, but it has nothing at /orders; leave the path out"
    assert_refused(refused, ExitCode.UNAVAILABLE, told)
