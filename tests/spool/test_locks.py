"""Locks that do not work, or do not reach the other machine, are found out at the start."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from mq.ctl.ways.by_root import RootAccess
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.spool.locks import lock_names
from mq.spool.root import open_root
from mq.spool.root_format import FORMAT_FILE
from tests.support.descriptors import open_descriptors
from tests.support.faults import FarFiles
from tests.support.lone_root import make_root
from tests.support.messages import names_in
from tests.support.stores import ORDERS


def _is_folder(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


class NoFolderLocks(Files):
    def lock(self, fd: int) -> bool:
        if _is_folder(fd):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        return super().lock(fd)

    def lock_shared(self, fd: int) -> bool:
        return _is_folder(fd) or super().lock_shared(fd)


class NoReadOnlyLocks(Files):
    """As NFS: what is locked alone must be open for writing (flock(2))."""

    def lock(self, fd: int) -> bool:
        if not _is_folder(fd) and not self._is_writable(fd):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return super().lock(fd)

    def _is_writable(self, fd: int) -> bool:
        flags = Path(f"/proc/self/fdinfo/{fd}").read_text().split("flags:")[1].split()[0]
        return bool(int(flags, 8) & (os.O_RDWR | os.O_WRONLY))


class SharedFileLocks(Files):
    """A lock of a file excludes nobody."""

    def lock(self, fd: int) -> bool:
        return not _is_folder(fd) or super().lock(fd)


class NoByteLocks(Files):
    def lock_byte(self, fd: int, offset: int) -> bool:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


class SharedByteLocks(Files):
    def lock_byte(self, fd: int, offset: int) -> bool:
        return True


BROKEN = {
    NoFolderLocks: r"the lock of a folder \(flock\) does not work .*: No locks available",
    FarFiles: r"the lock of a folder \(flock\) .*: two descriptors have it at once",
    NoReadOnlyLocks: r"the lock of a file \(flock\) .*: Bad file descriptor",
    SharedFileLocks: r"the lock of a file \(flock\) .*: two descriptors have it at once",
    NoByteLocks: r"the lock of a byte \(F_OFD_SETLK\) .*: Invalid argument",
    SharedByteLocks: r"the lock of a byte \(F_OFD_SETLK\) .*: two descriptors have it at once",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_root_where_a_lock_does_not_work_is_refused(root: Path, broken: type[Files]) -> None:
    with pytest.raises(StartRefused, match=BROKEN[broken]) as refused:
        open_root(root, 0o700, broken())

    assert str(refused.value).startswith(f"root {root}: ")
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == ExitCode.SYSTEM


@pytest.mark.parametrize("broken", BROKEN)
def test_without_a_server_nothing_is_changed_where_a_lock_does_not_work(
    root: Path, broken: type[Files]
) -> None:
    make_root(root)

    with (
        closing(RootAccess(root, broken())) as access,
        pytest.raises(StartRefused, match=BROKEN[broken]),
    ):
        access.create_queue(ORDERS)

    assert names_in(root / "queues") == []


def test_locks_that_others_hold_keep_no_server_from_starting(root: Path) -> None:
    files = Files()
    with closing(open_root(root, 0o700, files)[0]):
        held = [os.open(root / name, os.O_RDONLY) for name in (".", FORMAT_FILE)]
        assert all(map(files.lock, held))

        make_root(root)

        for fd in held:
            os.close(fd)


@pytest.mark.parametrize(
    ("kind", "is_told"), [("nfs4", True), ("fuse.sshfs", True), ("xfs", False)]
)
def test_a_root_that_other_machines_can_reach_says_that_locks_are_to_be_tried(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_told: bool
) -> None:
    monkeypatch.setattr("mq.spool.file_system.file_system_kind", lambda _: kind)

    spool, file_system = open_root(root, 0o700, Files())

    spool.close()
    told = [warning for warning in file_system.warnings if "docs/storage.md" in warning]
    assert len(told) == is_told
    assert all(f"locks on {kind} " in warning for warning in told)


def test_of_two_who_lock_names_one_gets_all_and_the_other_none(root: Path) -> None:
    files = Files()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        first = lock_names(spool, ["a", "b", "a"])
        assert first is not None
        before = open_descriptors()

        assert lock_names(spool, ["c", "b"]) is None
        assert open_descriptors() == before
        second = lock_names(spool, ["c"])
        assert second is not None
        files.close(first)
        third = lock_names(spool, ["b", "a"])
        assert third is not None

        for fd in (second, third):
            files.close(fd)


def test_the_byte_of_a_name_is_the_same_in_every_version(root: Path) -> None:
    """An older server on the same root locks that one."""
    files = Files()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        fd = files.open_to_lock(str(root / FORMAT_FILE))
        digest = hashlib.blake2b(b"orders:a", digest_size=7).digest()
        assert files.lock_byte(fd, int.from_bytes(digest))

        assert lock_names(spool, ["orders:a"]) is None

        files.close(fd)


STORAGE = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()


def _commands(marker: str) -> list[str]:
    text = STORAGE.partition(f"<!-- {marker} -->\n```sh\n")[2].partition("```")[0]
    assert text
    return ["sh", "-c", text]


@pytest.mark.skipif(shutil.which("flock") is None, reason="no flock(1) here")
def test_the_commands_in_the_documents_tell_whether_locks_reach(tmp_path: Path) -> None:
    def tried() -> list[str]:
        command = _commands("try the locks")
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    with subprocess.Popen(
        _commands("hold the locks"), cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.read(4) == b"held"

        assert tried() == ["folder: reaches", "file: reaches", "byte: reaches"]

        holder.stdin.write(b"\n")
        holder.stdin.close()
        assert holder.wait(60) == 0
    assert tried() == ["folder: does not reach", "file: does not reach", "byte: does not reach"]
