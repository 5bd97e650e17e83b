"""`mqctl`: what one way in can do alone, how a way is chosen, and servers that answer badly."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq import __version__
from mq.errors import CTL_EXIT_CODES, ExitCode
from tests.conftest import Server
from tests.mqctl import Ctl, assert_refused, without_ours

LARGE = bytes(2_000_000)


@pytest.fixture
def by_http(server: Server) -> Ctl:
    return Ctl("--url", server.url)


@pytest.fixture
def by_root(server: Server) -> Ctl:
    return Ctl("--root", str(server.root))


@pytest.fixture
def no_way() -> Ctl:
    return Ctl()


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


def test_ls_lists_every_queue(by_root: Ctl, queue: str) -> None:
    by_root.ok("create", f"{queue}.dead")
    for _ in range(12):
        by_root.ok("send", queue, "body")
    by_root.ok("recv", queue)

    lines = by_root.ok("ls").out.decode().splitlines()
    documents = {each["queue"]: each for each in by_root.ok("ls", "--json").lines()}

    shown = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert re.split(r"\s{2,}", lines[0].strip()) == [
        "name", "ready", "leased", "delayed", "oldest age",
    ]  # fmt: skip
    assert shown[queue][:3] == ["11", "1", "0"]
    assert shown[f"{queue}.dead"] == ["0", "0", "0", "-"]
    assert len({len(line) for line in lines}) == 1
    assert documents[queue]["ready"] == 11
    assert documents[f"{queue}.dead"]["oldest_age_seconds"] is None


def test_ls_of_a_root_without_queues_is_silent(
    tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    server = start_server()

    assert Ctl("--root", str(server.root)).ok("ls") == (0, b"", "")


def test_peek_shows_the_oldest_ready_messages(by_root: Ctl, queue: str) -> None:
    ids = [by_root.ok("send", queue, body).out.decode().strip() for body in ("a\x1b[31m\n", "b")]
    by_root.ok("send", queue, stdin=LARGE)

    lines = by_root.ok("peek", queue, "-n", "2").out.decode().splitlines()

    assert lines == [
        rf"id={ids[0]} count=0 state=ready bytes=7 a\x1b[31m\n",
        f"id={ids[1]} count=0 state=ready bytes=1 b",
    ]
    assert by_root.ok("peek", queue).out.decode().endswith("...\n")
    assert [each["body"] for each in by_root.ok("peek", queue, "-n", "2", "--json").lines()] == [
        "a\x1b[31m\n", "b",
    ]  # fmt: skip
    assert by_root.ok("info", queue, "--json").json()["ready"] == 3


def test_peek_at_one_shows_its_body_whatever_its_state(by_root: Ctl, queue: str) -> None:
    by_root.ok("send", queue, stdin=LARGE)
    message = by_root.ok("recv", queue, "--json").json()

    shown = by_root.ok("peek", queue, message["id"])

    assert shown.out == LARGE
    assert shown.err == f"id={message['id']} lease={message['lease']} count=1\n"
    assert by_root.ok("peek", queue, message["id"], "--json").json() == message


def test_peek_at_nothing_says_so_by_its_exit_code(by_root: Ctl, queue: str) -> None:
    assert by_root("peek", queue) == (ExitCode.EMPTY, b"", "")
    assert by_root("peek", queue, "--json") == (ExitCode.EMPTY, b"", "")
    assert_refused(by_root("peek", queue, "1"), ExitCode.NOT_FOUND, "has no message 1")
    assert_refused(by_root("peek", "absent"), ExitCode.NOT_FOUND, "no queue absent")


def test_visibility_is_as_long_as_asked(by_root: Ctl, server: Server, queue: str) -> None:
    sent = by_root.ok("send", queue, "body").out.decode().strip()

    by_root.ok("recv", queue, "--visibility", "86400")

    status = (server.root / "delay" / f"{queue}:{sent}").stat()
    assert 86_390e9 < status.st_mtime_ns - status.st_ctime_ns < 86_410e9


@pytest.mark.parametrize("words", ["ls", "peek q", "peek q 1", "fsck", "recv q --visibility 9"])
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


def test_the_root_of_a_server_is_not_taken_for_a_way(server: Server) -> None:
    done = Ctl()("ls", MQ_ROOT=str(server.root))

    assert_refused(done, ExitCode.USAGE, "use --root")


def test_without_a_command_it_shows_its_help(no_way: Ctl) -> None:
    done = no_way()

    assert (done.code, done.out) == (ExitCode.USAGE, b"")
    assert done.err == no_way.ok("--help").out.decode()
    for code, meaning in CTL_EXIT_CODES.items():
        assert f"{code.value:>4}  {meaning}" in done.err
    assert no_way.ok("--version").out.decode() == f"mqctl {__version__}\n"


# Servers that refuse, or are none


def test_no_server_names_the_address_and_the_way_out(no_way: Ctl) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        done = no_way("info", "q", "--url", url)

    assert_refused(
        done, ExitCode.UNAVAILABLE, f"{url} does not answer: Connection refused; start mq"
    )


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://host", "http://", "http://h:x", "http://h:99999", "http://h?q"]
)  # fmt: skip
def test_what_is_no_address_is_a_wrong_use(no_way: Ctl, url: str) -> None:
    assert_refused(no_way("info", "q", "--url", url), ExitCode.USAGE, "no address of a server")


def test_an_address_may_end_with_a_slash(server: Server, queue: str) -> None:
    assert Ctl("--url", f"{server.url}/").ok("info", queue)


@pytest.mark.parametrize("size", [1000, len(LARGE)])
def test_a_body_over_the_limit_is_refused(start_server: Callable[..., Server], size: int) -> None:
    ctl = Ctl("--url", start_server("--max-body=999").url)
    ctl.ok("create", "orders")

    done = ctl("send", "orders", stdin=LARGE[:size])

    assert_refused(done, ExitCode.REFUSED, "(--max-body)")


def test_a_large_body_to_a_missing_queue_is_refused(by_http: Ctl, by_root: Ctl) -> None:
    for ctl in (by_http, by_root):
        assert_refused(ctl("send", "absent", stdin=LARGE), ExitCode.NOT_FOUND, "no queue absent")


def test_a_server_without_room_asks_to_try_again(start_server: Callable[..., Server]) -> None:
    ctl = Ctl("--url", start_server("--min-free=99999999GiB").url)
    ctl.ok("create", "orders")

    assert_refused(ctl("send", "orders", "body"), ExitCode.TRY_AGAIN, "--min-free")


@pytest.fixture
def answer_with() -> Iterator[Callable[[bytes], str]]:
    """`answer_with(b"...")` returns the address of one who answers so, and then closes."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(data: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(data)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread, listener in zip(threads, listeners, strict=True):
        thread.join(10)
        listener.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<p>Hello</p>"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n<p>Hello</p>"
MOVED = b"HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
FAILED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nnull"


@pytest.mark.parametrize("answer", [OK, NOT_FOUND, MOVED, FAILED, b"", b"220 smtp\r\n"])
@pytest.mark.parametrize("words", [["info", "q"], ["send", "q", "x"], ["recv", "q"]], ids=str)
def test_one_who_is_no_server_of_mq_is_told_apart(
    no_way: Ctl, answer_with: Callable[[bytes], str], answer: bytes, words: list[str]
) -> None:
    done = no_way(*words, "--url", answer_with(answer))

    assert_refused(done, ExitCode.UNAVAILABLE, "--url")


def test_a_body_that_breaks_off_is_no_success(
    no_way: Ctl, answer_with: Callable[[bytes], str], tmp_path: Path
) -> None:
    head = (
        b'HTTP/1.1 200 OK\r\nX-Message-Id: 1\r\nETag: "0000000000000001"\r\n'
        b"X-Published-At: now\r\nX-Visible-At: then\r\nContent-Length: 100\r\n\r\n"
    )

    done = no_way("recv", "q", "--url", answer_with(head + b"0123456789"))

    assert done.code == ExitCode.UNAVAILABLE
    assert "ended after 10 of 100 bytes" in done.err


@pytest.mark.parametrize("way", ["--url", "--root"])
def test_a_reader_that_goes_away_ends_it_without_a_traceback(
    start_server: Callable[..., Server], way: str
) -> None:
    server = start_server()
    target = server.url if way == "--url" else str(server.root)
    Ctl(way, target).ok("create", "orders")
    Ctl(way, target).ok("send", "orders", stdin=LARGE)
    ours, theirs = os.pipe()
    os.close(ours)

    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "recv", "orders", way, target],
        stdout=theirs, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    os.close(theirs)
    _, err = process.communicate(timeout=30)

    assert process.returncode != 0
    assert "Traceback" not in err.decode()


def test_an_interrupt_ends_it_with_the_shells_exit_code(queue: str, by_root: Ctl) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "send", queue, *by_root.way],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    assert process.stdin is not None
    # More than a pipe holds: once it is written the command waits for the rest.
    process.stdin.write(LARGE)
    process.stdin.flush()

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in err.decode()
    assert by_root.ok("info", queue, "--json").json()["ready"] == 0
