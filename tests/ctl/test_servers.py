"""`mqctl` and servers that refuse, or are not servers of MQ; ends that come early."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire

LARGE = bytes(2_000_000)


def test_no_server_names_the_address_and_the_way_out(no_way: Ctl) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        done = no_way("info", "q", "--url", url)

    assert_refused(
        done, ExitCode.UNAVAILABLE, f"{url} does not answer: Connection refused; start mq"
    )


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://host", "http://", "http://h:x", "http://h:99999", "http://h?q",
            "http://h:0", "http://[::1", "http://[h]:80", "unix:", "http+unix://",
            "http://h/gr\u00fcn", "http://h/a b"],
)  # fmt: skip
def test_what_is_no_address_is_a_wrong_use(no_way: Ctl, url: str) -> None:
    assert_refused(no_way("info", "q", "--url", url), ExitCode.USAGE, "not the address of a server")


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


@pytest.mark.parametrize("status", ["502 Bad Gateway", "504 Gateway Timeout"])
def test_a_proxy_without_a_server_behind_it_is_named(
    no_way: Ctl, answer_with: Callable[[bytes], str], status: str
) -> None:
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 6\r\n\r\n<html>"

    done = no_way("info", "q", "--url", answer_with(answer.encode()))

    assert_refused(done, ExitCode.UNAVAILABLE, f"{status}, from a proxy that gets no answer")


def test_a_proxy_with_a_limit_for_bodies_is_named(
    no_way: Ctl, answer_with: Callable[[bytes], str]
) -> None:
    """nginx lets 1 MiB pass by default."""
    answer = b"HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 6\r\n\r\n<html>"

    done = no_way("send", "q", "x", "--url", answer_with(answer))

    assert_refused(done, ExitCode.REFUSED, "a proxy lets no body of this size pass (413)")


def test_a_body_that_breaks_off_is_no_success(
    no_way: Ctl, answer_with: Callable[[bytes], str]
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


def test_https_to_a_plain_port_says_so(no_way: Ctl, server: Server) -> None:
    url = server.url.replace("http:", "https:")

    done = no_way("info", "q", "--url", url)

    assert_refused(done, ExitCode.UNAVAILABLE, "it does not speak TLS; write http://")


@pytest.mark.parametrize("host", ["192.0.2.1", "127.0.0.1", "localhost"])
def test_a_token_that_others_can_read_is_warned_of_once(
    host: str,
) -> None:
    """Nobody has that address (RFC 5737); whether it can be reached does not matter."""
    warning = f"the token goes to {host} over plain http"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://{host}:{closed.getsockname()[1]}"
        command = [sys.executable, "-c", WARNED_OF, url]
        done = subprocess.run(command, env=without_ours(), capture_output=True, check=True)

    assert done.stderr.decode().count(warning) == (host == "192.0.2.1")


WARNED_OF = """
import socket, sys
from mq.ctl.ways.by_http import HttpAccess
from mq.ctl.ways.connect import ClientCredentials
from mq.errors import CommandFailed

def refuse(*_):
    raise ConnectionRefusedError

socket.create_connection = refuse
for token in (None, "secret"):
    access = HttpAccess(sys.argv[1], ClientCredentials(token))
    for queue in ("one", "two"):
        try:
            access.describe_queue(queue)
        except CommandFailed:
            pass
"""


def test_exec_in_the_background_of_a_script_goes_on_after_ctrl_c(
    server: Server, wire: Wire, queue: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "mq.ctl", "exec", queue, "--url", server.url, "--", "touch"]
    script = 'trap "" INT; exec "$@"'
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", *command, f"{tmp_path}/began"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    wire.publish(queue, b"first")
    wait_until((tmp_path / "began").exists)

    process.send_signal(signal.SIGINT)
    (tmp_path / "began").unlink()
    wire.publish(queue, b"second")

    wait_until((tmp_path / "began").exists)
    process.send_signal(signal.SIGTERM)
    assert b"2 done" in process.communicate(timeout=60)[0]
