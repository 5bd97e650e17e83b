"""Command lines whose output cannot be written, or that began with SIGINT ignored."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, without_ours
from tests.support.preloaded import run_preloaded
from tests.support.processes import wait_until
from tests.support.vsqs import names_in, run_command
from vsqs.queue import Queue

MQCTL = [
    ("export", "jobs"),
    ("export", "jobs", "--remove"),
    ("ls",),
    ("info", "jobs", "--json"),
    ("peek", "jobs"),
    ("recv", "jobs"),
    ("recv", "jobs", "--json"),
    ("recv", "jobs", "--ack", "-n2"),
    ("cat", "jobs", "message-1"),
    ("tail", "jobs"),
    ("top", "--interval=0.1"),
    ("tail", "jobs", "-f"),
    ("send", "jobs", "body"),
    ("send", "jobs", "body", "--lines"),
    ("ack", "jobs", "message-1"),
    ("create", "others"),
    ("set", "jobs", "ttl=60"),
    ("move", "jobs", "jobs.dead", "-n1"),
    ("redrive", "jobs", "-n1"),
    ("purge", "jobs", "--yes"),
    ("import", "jobs", "/dev/null"),
    ("fsck",),
    ("--help",),
]
VSQS = [("export",), ("export", "--remove"), ("size",), ("receive",), ("publish",)]


@pytest.fixture(scope="module")
def made_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a queue, more messages than a buffer holds, and something for fsck to find."""
    root = tmp_path_factory.mktemp("made") / "mq"
    ctl = Ctl("--root", str(root))
    ctl.ok("create", "jobs")
    lines = [b'{"id": "message-%d", "body": "%s"}\n' % (at, b"x" * 300) for at in range(50)]
    ctl.ok("import", "jobs", stdin=b"".join(lines))
    ctl.ok("create", "jobs.dead")
    ctl.ok("send", "jobs.dead", "--lines", stdin=b"one\ntwo\n")
    (root / "queues" / "a foreign name").mkdir()
    return root


@pytest.fixture
def root(made_root: Path, tmp_path: Path) -> Path:
    """A copy for each test, with the seals, which are extended attributes."""
    return shutil.copytree(made_root, tmp_path / "mq")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Queue(tmp_path / "queue", sync=False) as queue:
        queue.publish(b"x" * 10_000)
        queue.publish(b"x")
    return tmp_path / "queue"


def run_into(stdout: int, module: str, *words: str | Path) -> tuple[int, str]:
    """Exit code and stderr. The command gets the descriptor, and nobody else has it afterwards."""
    with open(stdout, "wb"), open(os.devnull, "rb") as stdin, TemporaryFile() as stderr:
        files = (stdin.fileno(), stdout, stderr.fileno())
        given = [str(word) for word in words]
        code = run_preloaded(module, *given, files=files, env=without_ours(), seconds=60)
        stderr.seek(0)
        return code, stderr.read().decode()


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def without_receipt(err: str) -> str:
    return "".join(line for line in err.splitlines(True) if not line.startswith("id="))


@pytest.mark.parametrize("words", MQCTL, ids=" ".join)
def test_mqctl_says_that_stdout_is_full_and_a_closed_pipe_ends_it_quietly(
    root: Path, words: tuple[str, ...]
) -> None:
    code, err = run_into(full_disk(), "mq.ctl", "--root", root, *words)
    closed = run_into(closed_pipe(), "mq.ctl", "--root", root, *words)

    assert code == ExitCode.OUTPUT
    assert without_receipt(err) == (
        "mqctl: stdout cannot be written: No space left on device; what was written is incomplete "
        "(exit 74: stdout cannot be written)\n"
    )
    assert (closed[0], without_receipt(closed[1])) == (128 + signal.SIGPIPE, "")


def test_a_queue_is_deleted_though_nobody_is_told(root: Path) -> None:
    assert run_into(full_disk(), "mq.ctl", "--root", root, "rm", "jobs", "--yes")[0] == 74
    assert run_into(closed_pipe(), "mq.ctl", "--root", root, "rm", "jobs.dead", "--yes")[0] == 141


@pytest.mark.parametrize("words", VSQS, ids=" ".join)
def test_vsqs_says_so_too(folder: Path, words: tuple[str, ...]) -> None:
    code, err = run_into(full_disk(), "vsqs", words[0], folder, *words[1:])
    closed = run_into(closed_pipe(), "vsqs", words[0], folder, *words[1:])

    assert code == ExitCode.OUTPUT
    assert "stdout cannot be written: No space" in err
    assert "Traceback" not in err
    assert (closed[0], without_receipt(closed[1])) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("module", ["vsqs.pump", "vsqs.sink"])
def test_a_pump_ends_with_its_reader(folder: Path, module: str) -> None:
    with Queue(folder, sync=False) as queue:
        for _ in range(60):
            queue.publish(b"")

    assert run_into(full_disk(), module, folder)[0] == ExitCode.OUTPUT
    with Queue(folder, sync=False) as queue:
        for _ in range(60):
            queue.publish(b"")
    assert run_into(closed_pipe(), module, folder) == (128 + signal.SIGPIPE, "")


def test_a_closed_stdout_is_no_defect(root: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "mq.ctl", "--root", root,
         "export", "jobs"],
        check=False, stderr=subprocess.PIPE, timeout=60, env=without_ours(),
    )  # fmt: skip

    assert done.returncode == ExitCode.OUTPUT
    assert b"stdout cannot be written: Bad file descriptor" in done.stderr


# Started with SIGINT ignored, as in the background of a shell


IN_BACKGROUND = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m"]


def test_what_was_started_in_the_background_goes_on_after_an_interrupt(folder: Path) -> None:
    sink = subprocess.Popen([*IN_BACKGROUND, "vsqs.sink", folder])
    wait_until(lambda: not [each for each in names_in(folder) if each.isdigit()], 100)

    sink.send_signal(signal.SIGINT)
    run_command("vsqs", "publish", folder, "one more")
    wait_until(lambda: names_in(folder) == [], 100)

    sink.terminate()
    assert sink.wait(30) == ExitCode.OK


def test_an_import_in_the_background_goes_on_after_an_interrupt(root: Path) -> None:
    importer = subprocess.Popen(
        [*IN_BACKGROUND, "mq.ctl", "import", "jobs", "--root", root],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    assert importer.stdin is not None
    importer.stdin.write(b'{"body": "a"}\n{"body": "b"}\n')
    importer.stdin.flush()
    wait_until(lambda: len(list((root / "queues" / "jobs").iterdir())) == 52, 100)

    importer.send_signal(signal.SIGINT)

    assert importer.communicate(b'{"body": "c"}')[0] == b"imported 3 messages\n"
    assert importer.returncode == ExitCode.OK


def test_a_server_in_the_background_goes_on_after_an_interrupt(tmp_path: Path) -> None:
    log, tokens = tmp_path / "log", tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"clerk write {'T1' * 16}\n")
    with log.open("wb") as stderr:
        server = subprocess.Popen(
            [*IN_BACKGROUND, "mq", "--root", tmp_path / "mq", "--port=0", "--admin=",
             "--token-file", tokens],
            stderr=stderr, env=without_ours(),
        )  # fmt: skip
    try:
        wait_until(lambda: "event=listening" in log.read_text(), 100)

        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGHUP)
        wait_until(lambda: "event=reloaded" in log.read_text(), 100)

        assert "event=stopping" not in log.read_text()
        server.terminate()
        assert server.wait(30) == ExitCode.OK
    finally:
        server.kill()
        server.wait()


COUNTING = """
import sys
from mq.command.stdout import guard_stdout
guard_stdout()
for number in range(10**9):
    sys.stdout.buffer.write(b"%d\\n" % number)
    sys.stdout.flush()
"""


def test_an_interrupt_writes_nothing_twice() -> None:
    """It may come right after a write, before that is noted. Of these children every second one
    wrote its last line again at its end."""
    children = [
        subprocess.Popen([sys.executable, "-c", COUNTING], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
        for _ in range(12)
    ]  # fmt: skip
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == b"0\n"
        child.send_signal(signal.SIGINT)
    for child in children:
        lines = child.communicate()[0].split()
        assert lines == [b"%d" % number for number in range(1, len(lines) + 1)]
