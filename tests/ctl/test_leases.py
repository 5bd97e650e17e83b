"""`mqctl touch`, `release` and `redrive`, and `recv --wait`: over HTTP and on the folders."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from mq.errors import ExitCode
from tests.support.messages import names_in
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy
from tests.support.wire import Wire

UNKNOWN = "00c0ffee00c0ffee"
LARGE = os.urandom(100_000)


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

    assert_refused(ctl(*words), ExitCode.REFUSED, "does not have that lease")
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


def bury(server: Server, wire: Wire, queue: str, bodies: list[bytes]) -> list[str]:
    """Dead letters as the mover leaves them, received three times."""
    wire.request("PUT", f"/{queue}.dead")
    ids = [wire.publish(queue, body, content_type="text/x") for body in bodies]
    for message_id in ids:
        for _ in range(3):
            wire.request("GET", f"/{queue}/messages?id={message_id}")
        leased = server.root / "delay" / f"{queue}:{message_id}"
        leased.rename(server.root / "queues" / f"{queue}.dead" / message_id)
    wait_until(lambda: wire.count(f"{queue}.dead")[0] == len(bodies))
    return ids


def test_redrive_on_the_folders_keeps_id_type_and_place(
    server: Server, by_root: Ctl, wire: Wire, queue: str
) -> None:
    bodies = [b"one", LARGE, b"three"]
    ids = bury(server, wire, queue, bodies)
    younger = wire.publish(queue, b"younger")

    redriven = by_root.ok("redrive", queue)

    assert redriven.out == b"moved 3 messages\n"
    wait_until(lambda: wire.count(queue) == (4, 0))
    taken = [wire.receive(queue) for _ in range(4)]
    assert [each.headers["x-message-id"] for each in taken] == [*ids, younger]
    assert [each.body for each in taken] == [*bodies, b"younger"]
    assert {each.headers["content-type"] for each in taken[:3]} == {"text/x"}
    assert {each.headers["x-receive-count"] for each in taken} == {"1"}
    assert by_root("redrive", queue).code == ExitCode.EMPTY


def test_redrive_over_http_publishes_anew_in_order(
    server: Server, by_http: Ctl, wire: Wire, queue: str
) -> None:
    bodies = [b"one", LARGE, b"three"]
    ids = bury(server, wire, queue, bodies)

    redriven = by_http.ok("redrive", queue, "--json").json()

    assert redriven == {"queue": queue, "redriven": 3}
    taken = [wire.receive(queue) for _ in range(3)]
    assert [each.body for each in taken] == bodies
    assert {each.headers["content-type"] for each in taken} == {"text/x"}
    assert {each.headers["x-receive-count"] for each in taken} == {"1"}
    assert {each.headers["x-message-id"] for each in taken}.isdisjoint(ids)
    assert names_in(server.root / "queues" / f"{queue}.dead") == []


def test_redrive_that_broke_off_doubles_nothing(
    server: Server, by_http: Ctl, wire: Wire, queue: str
) -> None:
    """Published anew, but not removed yet."""
    [message_id] = bury(server, wire, queue, [b"one"])
    by_http.ok("redrive", queue)
    removed = server.root / "remove" / f"{queue}.dead:{message_id}"
    removed.rename(server.root / "queues" / f"{queue}.dead" / message_id)
    wait_until(lambda: wire.count(f"{queue}.dead") == (1, 0))

    by_http.ok("redrive", queue)

    assert wire.count(queue) == (1, 0)
    assert wire.count(f"{queue}.dead") == (0, 0)


class NoRemovals(LossyProxy):
    """Passes on everything up to the first removal, which never arrives."""

    def __init__(self, port: int) -> None:
        self.has_held = threading.Event()
        super().__init__(port, 0)

    def _pass_on(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))

        def listen() -> None:
            with suppress(OSError):
                while (data := client.recv(65536)) and not data.startswith(b"DELETE"):
                    server.sendall(data)
                if data:
                    self.has_held.set()

        threading.Thread(target=listen, daemon=True).start()
        with client, server, suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)


@pytest.fixture
def without_removals(server: Server) -> Iterator[NoRemovals]:
    proxy = NoRemovals(server.port)
    yield proxy
    proxy.close()


def test_redrive_on_the_folders_after_a_killed_one_over_http_doubles_nothing(
    server: Server, by_root: Ctl, wire: Wire, queue: str, without_removals: NoRemovals
) -> None:
    """The message was published anew, but not removed yet."""
    [message_id] = bury(server, wire, queue, [b"one"])
    command = [sys.executable, "-m", "mq.ctl", "redrive", queue, "--url", without_removals.url]
    with subprocess.Popen(command, env=without_ours()) as over_http:
        assert without_removals.has_held.wait(30)
        over_http.kill()
    assert wire.count(queue) == (1, 0)
    assert wire.count(f"{queue}.dead") == (0, 1)
    wire.request("GET", f"/{queue}.dead/messages?id={message_id}&visibility=0")

    redriven = by_root.ok("redrive", queue)

    assert redriven.out == b"moved 1 messages\n"
    assert wire.count(queue) == (1, 0)
    assert wire.count(f"{queue}.dead") == (0, 0)
    assert f"{queue}.dead:{message_id}" in names_in(server.root / "remove")
    assert wire.receive(queue).body == b"one"


def test_redrive_passes_over_a_name_that_the_queue_has(
    server: Server, by_root: Ctl, wire: Wire, queue: str
) -> None:
    first, second = bury(server, wire, queue, [b"one", b"two"])
    (server.root / "queues" / queue / first).write_bytes(b"other")

    redriven = by_root.ok("redrive", queue)

    assert redriven.out == b"moved 1 messages\n"
    assert names_in(server.root / "queues" / f"{queue}.dead") == [first]
    assert (server.root / "queues" / queue / first).read_bytes() == b"other"
    assert second in names_in(server.root / "queues" / queue)


def test_redrive_of_what_is_missing(ctl: Ctl, queue: str) -> None:
    assert ctl("redrive", queue).code == ExitCode.NOT_FOUND
    assert ctl("redrive", "absent").code == ExitCode.NOT_FOUND
    assert_refused(ctl("redrive", "orders.dead"), ExitCode.USAGE, "orders")
