"""The commands `vsqs`, `vsqspump` and `vsqssink`, as processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.errors import CommandFailed, ExitCode
from tests.support.mqctl import Done, assert_exit_named
from tests.support.processes import wait_until
from tests.support.vsqs import names_in, run_command
from vsqs import cli
from vsqs.arguments import EXIT_CODES
from vsqs.queue import Queue

pytestmark = pytest.mark.slow

LARGE = bytes(range(256)) * 10_000


def vsqs(*words: str | Path, stdin: bytes = b"") -> Done:
    return run_command("vsqs", *words, stdin=stdin)


def assert_refused(done: Done, code: ExitCode, detail: str) -> None:
    assert (done.code, done.out) == (code, b"")
    assert_exit_named(done.err, code, EXIT_CODES)
    assert detail in done.err
    assert done.err.count("\n") == 1


def test_a_message_goes_through_the_commands(folder: Path) -> None:
    message_id = vsqs("publish", folder, "two coffees").out.decode().strip()
    assert names_in(folder) == [message_id]

    assert vsqs("size", folder).out == b"1\n"
    assert vsqs("receive", folder, "--visibility", "600") == (
        0,
        b"two coffees",
        f"id={message_id}\n",
    )
    assert vsqs("receive", folder) == (ExitCode.EMPTY, b"", "")
    assert vsqs("delete", folder, message_id) == (0, b"", "")
    assert_refused(vsqs("delete", folder, message_id), ExitCode.NOT_FOUND, "has no message")


def test_a_body_comes_from_stdin_or_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(LARGE)

    vsqs("publish", folder, stdin=b"from stdin")
    vsqs("publish", folder, "-f", tmp_path / "body")

    assert vsqs("receive", folder).out == b"from stdin"
    assert vsqs("receive", folder).out == LARGE
    assert_refused(vsqs("publish", folder, "a", "-f", "-"), ExitCode.USAGE, "two bodies")


def test_a_body_that_cannot_be_read_is_reported(folder: Path) -> None:
    # Nothing is mapped at the beginning of a process.
    done = vsqs("publish", folder, "-f", "/proc/self/mem")

    assert_refused(done, ExitCode.USAGE, "the body cannot be read: Input/output error")
    assert not folder.exists()


def test_a_body_without_end_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "MAX_BODY_BYTES", 1000)

    with pytest.raises(CommandFailed, match="more than 1000 bytes") as refused:
        cli.vsqs.main(["publish", str(folder), "-f", "/dev/zero"], standalone_mode=False)

    assert refused.value.exit_code is ExitCode.REFUSED
    assert not folder.exists()


@pytest.mark.parametrize("body", [b"text\n", b"\xff\x00"])
def test_json_holds_id_and_body(folder: Path, body: bytes) -> None:
    message_id = vsqs("publish", folder, stdin=body).out.decode().strip()

    document = json.loads(vsqs("receive", folder, "--json").out)

    assert document["id"] == message_id
    assert ("body" in document) == (body == b"text\n")


def test_receive_waits_and_hides_as_long_as_asked(folder: Path) -> None:
    with Queue(folder) as queue:
        message_id = queue.publish(b"body")
        vsqs("receive", folder, "--visibility", "1.5")
        assert vsqs("receive", folder, "--timeout", "30").err == f"id={message_id}\n"
        [name] = names_in(folder)
        assert re.fullmatch(rf"{message_id}\.\d+", name)


def test_a_full_queue_is_tried_again_later(folder: Path) -> None:
    vsqs("publish", folder, "one")

    done = vsqs("publish", folder, "two", "--capacity", "1", "--timeout", "0.05")

    assert_refused(done, ExitCode.TRY_AGAIN, "capacity 1")


@pytest.mark.parametrize("words", ["receive", "size", "delete 1", "export"])
def test_a_mistyped_queue_is_not_made(folder: Path, words: str) -> None:
    command, *rest = words.split()

    assert_refused(vsqs(command, folder, *rest), ExitCode.NOT_FOUND, str(folder))
    assert not folder.exists()


@pytest.mark.parametrize("words", ["receive", "size", "delete 1", "export", "publish"])
def test_a_path_that_cannot_be_looked_at_is_named(folder: Path, words: str) -> None:
    command, *rest = words.split()
    name = "x" * 300

    done = vsqs(command, folder.parent / name, *rest)

    assert_refused(done, ExitCode.ROOT, f"{name}: File name too long")


def test_errors_name_the_thing(folder: Path) -> None:
    folder.write_text("a file")

    assert_refused(vsqs("publish", folder, "x"), ExitCode.ROOT, str(folder))
    assert_refused(vsqs("delete", folder, "../1"), ExitCode.USAGE, "not a message id")
    assert_refused(vsqs("receive", folder, "--unit", "s"), ExitCode.USAGE, "'ms', 'us'")


def test_the_other_unit_is_warned_of(folder: Path) -> None:
    message_id = vsqs("publish", folder, "body", "--unit", "us").out.decode().strip()
    assert len(message_id) == 16

    done = vsqs("size", folder, "--unit", "ms")

    assert (done.code, done.out) == (0, b"1\n")
    assert done.err.startswith("warning: queue ")
    assert "or give --unit us" in done.err
    assert vsqs("receive", folder) == (0, b"body", f"id={message_id}\n")
    assert len(vsqs("publish", folder, "next").out.strip()) == 16


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Put a process in here, and it is killed when the test ends."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait(10)


def start(module: str, log: Path, *words: str | Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stdout:
        return subprocess.Popen([sys.executable, "-m", module, *words], stdout=stdout)


def test_pump_and_sink_move_messages_in_order(
    tmp_path: Path, folder: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    logs = [tmp_path / "pump.log", tmp_path / "sink.log"]
    running.append(start("vsqs.pump", logs[0], "-d", folder.parent, folder.name, "-c", "5"))
    wait_until(lambda: folder.exists() and len(list(folder.glob("*[0-9]"))) == 5, 100)
    running.append(start("vsqs.sink", logs[1], folder))

    wait_until(lambda: all(b"200 (" in log.read_bytes() for log in logs), 60)
    for process in running:
        process.terminate()

    assert [process.wait(10) for process in running] == [0, 0]
    assert re.fullmatch(r"(\d+ \(\d+\.\d\d/s\)\n)+", logs[1].read_text())
    assert len([name for name in names_in(folder) if not name.endswith(".new")]) <= 5


def test_sink_tells_of_what_is_out_of_order(
    tmp_path: Path, folder: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    log = tmp_path / "sink.log"
    folder.mkdir()
    (folder / "7").touch()
    running.append(start("vsqs.sink", log, folder))
    wait_until(lambda: names_in(folder) == [], 100)

    (folder / "5").touch()

    wait_until(lambda: log.read_text() == "Out-of-order delivery of 5 (prev: 7)\n", 100)
