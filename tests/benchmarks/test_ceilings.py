"""The loop in C that the server is compared with does the server's file calls, and no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.support.processes import LISTENING
from tests.support.sources import REPOSITORY

BODY = b"x" * 256
FIRST, LAST = "POST /bench", "HEAD /bench"
"""What a server reads before and after the calls that count."""

CHANGED = "the server makes other calls than benchmarks/filecalls.c: change that too"

COUNTED = {
    "openat": re.compile(r"O_TMPFILE|O_NONBLOCK"),  # an unnamed file, a message; not folders
    "write": re.compile(r'"xxx'),
    "pread64": re.compile(r'"xxx'),
    "fsetxattr": re.compile(r""),
    "fgetxattr": re.compile(r'"user\.[\w.]+"'),
    "flock": re.compile(r"LOCK_\w+"),
    "linkat": re.compile(r""),
    "utimensat": re.compile(r""),
    "renameat2": re.compile(r""),
    "mkdirat": re.compile(r"\.open"),
    "unlinkat": re.compile(r""),
    "fsync": re.compile(r""),
    "syncfs": re.compile(r""),
}
"""System calls, and what their arguments must hold."""

TRACE = ["strace", "-f", "-s", "64", "-e", f"trace=read,{','.join(COUNTED)}", "-o"]


@pytest.fixture(autouse=True)
def tools() -> None:
    if not (shutil.which("strace") and shutil.which("cc")):
        pytest.skip("install the packages strace and gcc")


def calls_in(lines: list[str]) -> Counter[str]:
    """Each call by its name and what was looked for; those that failed for want of a lock or a
    name are left out."""
    found: Counter[str] = Counter()
    for line in lines:
        call = re.match(r"(?:\d+ +)?(\w+)\((.*)", line)
        if call is None or call[1] not in COUNTED:
            continue
        matched = COUNTED[call[1]].search(call[2])
        if matched and not re.search(r"= -1 E(AGAIN|NOENT|EXIST)", line):
            found[f"{call[1]} {matched[0]}".strip()] += 1
    return found


def calls_in_c(folder: Path, *words: str) -> Counter[str]:
    program, log, root = folder / "filecalls", folder / "c.log", folder / "c"
    source = REPOSITORY / "benchmarks" / "filecalls.c"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    root.mkdir()
    *first, sync = words
    command: list[str | Path] = [*TRACE, log, program, root, *first, str(len(BODY)), sync, "0"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return calls_in(log.read_text().splitlines())


def is_memory(folder: Path) -> bool:
    command = ["stat", "--file-system", "--format=%T", str(folder)]
    kind = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return kind.strip() in ("tmpfs", "ramfs")


class TracedServer:
    """An `mq` whose file calls are written down, until `close`, which returns those that count."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "server.log"
        command: list[str | Path] = [*TRACE, self._log, sys.executable, "-m", "mq", "--port=0"]
        command += [f"--root={folder / 'root'}", "--admin="]
        self._strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._strace.stderr is not None
        found = (LISTENING.search(line) for line in self._strace.stderr)
        self._connection = HTTPConnection("127.0.0.1", int(next(m[1] for m in found if m)))
        self.ask("PUT", "/bench")
        self.ask("GET", "/bench/messages")  # the first one lists the queue

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "text/plain"
            ) -> tuple[str, bytes]:  # fmt: skip
        """The message id of an answer, and its body."""
        headers = {"Content-Type": kind} if kind else {}
        self._connection.request(method, path, body or None, headers)
        answer = self._connection.getresponse()
        assert answer.status < 300
        return answer.headers.get("X-Message-Id", ""), answer.read()

    def close(self) -> Counter[str]:
        self.ask("HEAD", "/bench")
        pid = self._strace.pid
        [server] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(server), signal.SIGTERM)
        self._strace.communicate()
        self._connection.close()
        lines = self._log.read_text().splitlines()
        [first, *_] = [number for number, line in enumerate(lines) if FIRST in line]
        [last] = [number for number, line in enumerate(lines) if LAST in line]
        return calls_in(lines[first:last])


@pytest.mark.parametrize("disk", [("ext4", 64), ("xfs", 320)])
def test_single_requests_make_the_same_calls_where_one_log_keeps_all(
    loop_mount: Callable[..., Path], disk: tuple[str, int]
) -> None:
    in_c, in_server = compare_single(loop_mount(*disk), "log")
    assert in_c == in_server, CHANGED


def test_single_requests_make_the_same_calls_in_c_and_in_the_server(tmp_path: Path) -> None:
    in_c, in_server = compare_single(tmp_path, "each")
    if is_memory(tmp_path):
        del in_c["fsync"]  # there a server has nothing to sync
    assert in_c == in_server, CHANGED


def compare_single(folder: Path, sync: str) -> tuple[Counter[str], Counter[str]]:
    """Return the calls of six single messages in C and in the server."""
    server = TracedServer(folder)
    for _ in range(6):
        server.ask("POST", "/bench/messages", BODY, kind="application/octet-stream")
    ids = [server.ask("GET", "/bench/messages")[0] for _ in range(6)]
    for message_id in ids:
        server.ask("DELETE", f"/bench/messages/{message_id}")

    return calls_in_c(folder, "single", "6", "1", sync), server.close()


def test_a_batch_makes_the_same_calls_in_c_and_in_the_server(tmp_path: Path) -> None:
    server = TracedServer(tmp_path)
    lines = (json.dumps({"body": BODY.decode()}) + "\n").encode() * 10
    _, published = server.ask("POST", "/bench/messages?batch", lines, "application/x-ndjson")
    server.ask("GET", "/bench/messages?max=10")
    ids = [json.loads(line)["id"] for line in published.splitlines()]
    server.ask("DELETE", f"/bench/messages/{','.join(ids)}")

    # In C receive and remove sync the file system where the server, for two folders, syncs those.
    in_c, in_server = calls_in_c(tmp_path, "batch", "10", "512", "each"), server.close()
    for calls in (in_c, in_server):
        del calls["fsync"], calls["syncfs"]
    assert in_c == in_server, CHANGED
