"""`mqctl fsck`: what it prints, its exit codes, and what it refuses."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mq.command.pace import CLEAR_LINE
from mq.errors import ExitCode
from tests.support.fsck import everything, sealed
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.users import BECOME_NOBODY, NOBODY, needs_root

AS_NOBODY = f"""
import mq.ctl.cli, mq.ctl.commands.checking, mq.ctl.ways.by_root, mq.lines.transfer
from mq.ctl import main  # all of it is imported while it may still be read
{BECOME_NOBODY}
main()
"""

SHOWN_AT_ONCE = """
import mq.ctl.screen.progress
mq.ctl.screen.progress.SILENT_SECONDS = 0.0
mq.ctl.main()
"""
"""`mqctl` that shows its progress from the beginning."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the queue `orders`, and no server."""
    Ctl("--root", str(tmp_path / "root")).ok("create", "orders")
    return tmp_path / "root"


@pytest.fixture
def ctl(root: Path) -> Ctl:
    return Ctl("--root", str(root))


def test_a_clean_root_is_passed_in_silence(ctl: Ctl) -> None:
    ctl.ok("send", "orders", "body")
    ctl.ok("send", "orders", "body")
    ctl.ok("recv", "orders")

    assert ctl("fsck") == ctl("fsck", "--repair") == ctl("fsck", "--json") == (0, b"", "")


def test_findings_are_a_line_each_and_exit_code_1_until_they_are_mended(
    ctl: Ctl, root: Path
) -> None:
    sealed(root / "queues" / "orders" / "1").write_bytes(b"x")
    (root / "new" / "README").touch()

    found, mended, again = ctl("fsck"), ctl("fsck", "--repair"), ctl("fsck")

    assert (found.code, mended.code, again.code) == (ExitCode.FINDINGS, 0, 0)
    lines = [
        "new/README: foreign: not a name of the form QUEUE:ID",
        "queues/orders/1: damaged: it has 1 bytes where its seal says 4",
    ]
    assert found.out.decode().splitlines() == lines
    assert mended.out.decode().splitlines() == [
        f"{lines[0]}; moved to corrupt/README",
        f"{lines[1]}; moved to corrupt/orders:1",
    ]
    assert "--repair" in found.err
    assert (again.out, mended.err, again.err) == (b"", "", "")


def test_findings_are_a_json_document_each(ctl: Ctl, root: Path) -> None:
    sealed(root / "new" / "orders:1")

    found, mended = ctl("fsck", "--json"), ctl("fsck", "--json", "--repair")

    document = {"kind": "leftover", "path": "new/orders:1", "detail": "published, not delivered"}
    assert found.lines() == [document | {"repair": None}]
    assert mended.lines() == [document | {"repair": "delivered to queue orders"}]
    assert (found.code, mended.code) == (ExitCode.FINDINGS, 0)


def test_a_finding_that_cannot_be_mended_keeps_exit_code_1(ctl: Ctl, root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(sealed(root / "queues" / "orders" / "1"), NOBODY, NOBODY)
    (root / "new" / "README").touch()

    done = ctl("fsck", "--repair")

    assert done.code == ExitCode.FINDINGS
    assert [b"; moved to" in line for line in done.out.splitlines()] == [True, False]


def test_a_hostile_name_does_no_harm_to_a_terminal(ctl: Ctl, root: Path) -> None:
    (root / "new" / "a\x1b[2J\nb").touch()
    (root / "new" / os.fsdecode(b"\xff")).touch()

    text, documents = ctl("fsck"), ctl("fsck", "--json")

    assert sorted(line.partition(": ")[0] for line in text.out.decode().splitlines()) == [
        r"new/\udcff", r"new/a\x1b[2J\nb",
    ]  # fmt: skip
    assert len(documents.lines()) == 2
    assert ctl("fsck", "--repair").code == 0
    assert len(everything(root / "corrupt")) == 2


def test_a_name_that_the_terminal_has_no_letters_for_is_shown(ctl: Ctl, root: Path) -> None:
    (root / "new" / "\u65e5").touch()

    done = subprocess.run(
        [sys.executable, "-m", "mq.ctl", "fsck", *ctl.way], check=False, capture_output=True,
        env=without_ours() | {"PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip

    assert done.returncode == ExitCode.FINDINGS
    assert done.stdout.startswith(rb"new/\u65e5: foreign: ")


@pytest.mark.parametrize("repair", [[], ["--repair"]])
def test_what_is_no_root_is_refused_and_not_made_one(tmp_path: Path, repair: list[str]) -> None:
    (tmp_path / "thesis.tex").touch()
    here, nowhere = Ctl("--root", str(tmp_path)), Ctl("--root", str(tmp_path / "missing"))

    assert_refused(here("fsck", *repair), ExitCode.ROOT, "is not a root of MQ")
    assert_refused(nowhere("fsck", *repair), ExitCode.ROOT, "is not a root of MQ")
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_root_of_a_newer_version_is_refused(ctl: Ctl, root: Path) -> None:
    (root / "format").write_text("mq 3\n")
    (root / "new" / "README").touch()

    assert_refused(ctl("fsck", "--repair"), ExitCode.FORMAT, "'mq 3'")

    assert (root / "new" / "README").exists()


def test_progress_is_shown_on_a_terminal_and_disappears(ctl: Ctl, root: Path) -> None:
    (root / "new" / "README").touch()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SHOWN_AT_ONCE, "fsck", *ctl.way],
        stdout=subprocess.PIPE, stderr=theirs, env=without_ours() | {"TERM": "xterm"},
    )  # fmt: skip

    out, _ = process.communicate(timeout=30)
    os.close(theirs)
    shown = b""
    while chunk := read_or_nothing(ours):
        shown += chunk
    os.close(ours)

    progress, _, after = shown.rpartition(CLEAR_LINE.encode())
    assert b"checking [" in progress
    assert b"\n" not in progress
    assert after.startswith(b"mqctl: fsck --repair")
    assert out == ctl("fsck").out


def read_or_nothing(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        # The other end is closed.
        return b""


@needs_root
def test_modes_are_mended_for_an_owner_who_is_shut_out(public_folder: Path) -> None:
    """Root may read whatever the mode says; others need it."""
    root = public_folder / "root"
    Ctl("--root", str(root)).ok("create", "orders")
    sealed(root / "queues" / "orders" / "1")
    sealed(root / "delay" / "orders:2")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    shut = [root / "delay" / "orders:2", root / "queues" / "orders" / "1",
            root / "queues" / "orders", root / "delay", root]  # fmt: skip
    for path in shut:
        path.chmod(0)

    assert_refused_or_found(as_nobody("fsck", "--root", str(root)))
    mended = as_nobody("fsck", "--repair", "--root", str(root))

    assert mended.returncode == 0, mended
    assert len(mended.stdout.splitlines()) == len(shut)
    assert as_nobody("fsck", "--root", str(root)).stdout == ""
    received = as_nobody("recv", "orders", "--root", str(root))
    assert received.stdout == "body", received


@needs_root
def test_a_root_of_another_user_is_refused_by_its_name(public_folder: Path) -> None:
    """A permission that is denied would not name the way out."""
    root = public_folder / "root"
    Ctl("--root", str(root)).ok("create", "orders")

    done = as_nobody("fsck", "--root", str(root))

    assert done.returncode == ExitCode.OWNER, done
    assert "run it as that user" in done.stderr


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *words],
        check=False, capture_output=True, text=True, timeout=30, env=without_ours(),
    )  # fmt: skip


def assert_refused_or_found(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode != 0
    assert "mode 0000 shuts its owner out" in done.stdout
    assert "Traceback" not in done.stderr
