"""The native part: what it gives back whatever fails, and what it leaves to `Files`."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mq.disk.calls import CLOSE, RENAME, STATUS, STATUS_OF, WRITE, Outcome, check, run
from mq.disk.files import Files
from mq.disk.status import Status
from tests.support import native as building
from tests.support.chains import BODY, SEAL, get, put
from tests.support.descriptors import open_files
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.native import OPTIONS_VARIABLE, SOURCE, struck, used


@pytest.mark.parametrize("chains", [None, 5, [None], [[]], [5]])
def test_no_chains_at_all_raise(native: ModuleType, chains: Any) -> None:
    with pytest.raises(TypeError):
        native.run(chains)


def test_references_are_given_back(native: ModuleType, folder: int) -> None:
    """References to names, bodies and whole chains are given back, even if the chain fails or is
    malformed."""
    body, name = bytearray(b"one"), "name" * 10
    whole, wrong = (*put(folder, name, body), (CLOSE, ~0)), (*put(folder, "x", body), (WRITE, 0, 5))
    chains = [whole, get(folder, name), wrong]
    counts = [sys.getrefcount(each) for each in (body, name, *chains)]

    for _ in range(50):
        assert [code for _, code in native.run(chains[:2])] == [0, 0]
        os.unlink(f"/proc/self/fd/{folder}/{name}-received")
        with pytest.raises(TypeError):
            native.run(chains)
        body += b"x"  # a buffer that is still held would forbid it

    assert [sys.getrefcount(each) for each in (body, name, *chains)] == counts


# Faults at the kernel's calls, natively


class Strikes:
    """Lets the call of that index fail, and notes all."""

    def __init__(self, index: int = -1, code: int = errno.EIO) -> None:
        self.calls: list[str] = []
        self._index, self._code = index, code

    def __call__(self, name: str) -> int:
        self.calls.append(name)
        return self._code if len(self.calls) - 1 == self._index else 0


def test_an_error_of_any_call_leaves_nothing_open(
    on_faults: ModuleType, folder: int, tmp_path: Path
) -> None:
    """Nor allocated, which the address sanitizer looks for."""
    (tmp_path / "two").write_bytes(BODY)
    os.setxattr(tmp_path / "two", SEAL, b"s" * 500)
    chains = [(*put(folder, "one"), (CLOSE, ~0)), get(folder, "two")]
    before = open_files()

    def scan(strikes: Strikes) -> list[Outcome]:
        with used(on_faults), struck(strikes):
            outcomes = run(Files(), chains)
        assert open_files() == before
        (tmp_path / "one").unlink(missing_ok=True)
        if not (tmp_path / "two").exists():
            os.rename(tmp_path / "two-received", tmp_path / "two")
        return outcomes

    whole = Strikes()
    assert [code for _, code in scan(whole)] == [0, 0]
    assert [name for name in whole.calls if name not in ("malloc", "free")] == [
        "open", "write", "setxattr", "utime", "fsync", "flock", "link", "close", "open", "flock",
        "fstat", "stat", *["getxattr"] * 3, "pread", "renameat2", "close",
    ]  # fmt: skip
    for index, name in enumerate(whole.calls):
        strikes = Strikes(index)
        failed = [outcome for outcome in scan(strikes) if outcome[1]]
        allocations = strikes.calls.count("malloc") - (name == "malloc")
        assert strikes.calls.count("free") == allocations
        expected = errno.ENOMEM if name == "malloc" else errno.EIO
        # An error of close(2) says nothing that anybody could act on.
        assert [code for _, code in failed] == ([] if name in ("close", "free") else [expected])


def test_an_inode_number_has_all_its_64_bits(folder: int, tmp_path: Path) -> None:
    """A file system may make these numbers by a hash."""
    (header := tmp_path / "far.h").write_text(
        "#define _GNU_SOURCE\n#include <sys/stat.h>\nstatic int far(int fd, struct stat *st) "
        "{ int failed = fstat(fd, st); st->st_ino |= 1ULL << 63; return failed; }\n"
        "#define fstat far\n"
    )
    far = building.load_native(building.compile_native(tmp_path / "far", "-include", str(header)))

    results, _ = far.run([((STATUS, folder),)])[0]

    assert Status._make(results[0]).st_ino == os.fstat(folder).st_ino | 1 << 63


@pytest.mark.parametrize("name", ["open", "write", "pread", "flock", "fsync"])
def test_an_interrupted_call_is_made_again(
    on_faults: ModuleType, folder: int, tmp_path: Path, name: str
) -> None:
    """Python makes interrupted calls of its own again, too."""
    left = [errno.EINTR, errno.EINTR]

    with used(on_faults), struck(lambda each: left.pop() if left and each == name else 0):
        [(_, code), (received, later)] = run(
            Files(), [(*put(folder, "one"), (CLOSE, ~0)), get(folder, "one")]
        )

    assert (left, code, later, received[6]) == ([], 0, 0, BODY)


def test_where_the_kernel_links_no_bare_descriptor_its_name_in_proc_is_linked(
    on_faults: ModuleType, folder: int, tmp_path: Path
) -> None:
    """Linux before 6.10 takes a bare descriptor from privileged processes only."""
    left = [errno.ENOENT]

    with used(on_faults), struck(lambda each: left.pop() if left and each == "link" else 0):
        check(run(Files(), [(*put(folder, "one"), (CLOSE, ~0))])[0])

    assert left == []
    assert (tmp_path / "one").read_bytes() == BODY


def test_a_short_write_goes_on_where_it_stopped(
    on_faults: ModuleType, folder: int, tmp_path: Path
) -> None:
    body = os.urandom(10_000)

    with used(on_faults), struck(lambda name: -1 if name == "write" else 0):
        check(run(Files(), [(*put(folder, "one", body), (CLOSE, ~0))])[0])

    assert (tmp_path / "one").read_bytes() == body


def test_a_body_cannot_change_while_it_is_written(
    on_faults: ModuleType, folder: int, tmp_path: Path
) -> None:
    body = bytearray(BODY)
    refused: list[BufferError] = []

    def change(name: str) -> int:
        if name == "write":
            try:
                body.extend(b"more")
            except BufferError as error:
                refused.append(error)
        return 0

    with used(on_faults), struck(change):
        check(run(Files(), [(*put(folder, "one", body), (CLOSE, ~0))])[0])

    assert len(refused) == 1
    assert (tmp_path / "one").read_bytes() == BODY


@pytest.mark.slow
def test_a_list_may_change_while_its_chains_run(on_faults: ModuleType, folder: int) -> None:
    chains = [get(folder, f"{number}") for number in range(3)]

    def change(_: str) -> int:
        chains.clear()
        gc.collect()
        return 0

    with struck(change):
        assert on_faults.run(chains) == [([], errno.ENOENT)] * 3


def test_no_memory_leaves_nothing_open(native: ModuleType, folder: int, tmp_path: Path) -> None:
    """Wherever it runs out: then nothing was done, or nothing of it is told."""
    testing = pytest.importorskip("_testcapi")
    body, name = bytearray(BODY), "name"
    chains = [put(folder, name, body), get(folder, "gone"), ((STATUS, folder),)]
    before, counts = open_files(), [sys.getrefcount(each) for each in (body, name, *chains)]
    failures = 0

    for allowed in range(1000):
        (tmp_path / name).unlink(missing_ok=True)
        testing.set_nomemory(allowed, 0)
        try:
            outcomes = native.run(chains)
        except MemoryError:
            failures += 1
            outcomes = None
        finally:
            testing.remove_mem_hooks()
        if outcomes is not None:
            os.close(outcomes[0][0][0])
            break
        assert open_files() == before

    assert failures > 10
    assert open_files() == before
    del outcomes
    assert [sys.getrefcount(each) for each in (body, name, *chains)] == counts


# What `Files` knows better


@pytest.mark.parametrize(
    ("name", "code"), [("open", errno.EOPNOTSUPP), ("renameat2", errno.EINVAL)]
)
def test_what_the_file_system_lacks_files_makes_up_for(
    on_faults: ModuleType, folder: int, tmp_path: Path, name: str, code: int
) -> None:
    """`Files` goes on from the call that failed natively; the calls before it are not made
    again."""
    struck_calls: list[str] = []
    chain = (
        *put(folder, "one"),
        (RENAME, folder, "one", folder, "two"),
        (STATUS_OF, folder, "two"),
        (CLOSE, ~0),
    )

    def strikes(each: str) -> int:
        struck_calls.append(each)
        return code if each == name else 0

    with used(on_faults), struck(strikes):
        results = check(run(Files(), [chain])[0])

    assert struck_calls[-1] == name
    assert (len(results), results[0], Status._make(results[8]).st_size) == (10, -1, len(BODY))
    assert os.listdir(tmp_path) == ["two"]


@pytest.mark.parametrize("files", [WatchedFiles(), OldFiles()])
def test_another_class_in_the_place_of_files_gets_every_call(
    native: ModuleType, folder: int, files: WatchedFiles
) -> None:
    with used(native):
        run(files, [(*put(folder, "one"), (CLOSE, ~0))])

    expected = {"open_unnamed", "write", "set_attribute", "stamp", "sync", "lock", "link", "close"}
    assert expected <= files.calls.keys()


@pytest.mark.parametrize("ability", ["renames_without_replacing", "has_unnamed_files"])
def test_files_that_know_of_a_lack_are_used(
    on_faults: ModuleType, folder: int, tmp_path: Path, ability: str
) -> None:
    files = Files()
    setattr(files, ability, False)
    asked: list[str] = []

    def strikes(name: str) -> int:
        asked.append(name)
        return 0

    with used(on_faults), struck(strikes):
        check(run(files, [(*put(folder, "one"), (CLOSE, ~0))])[0])

    assert (asked, os.listdir(tmp_path)) == ([], ["one"])


def test_the_source_stays_short_and_decides_nothing() -> None:
    assert len(SOURCE.read_text().splitlines()) <= 250


@pytest.mark.crash_long
def test_the_address_sanitizer_finds_nothing(tmp_path: Path) -> None:
    """It watches everything that the tests above do, and looks for leaks."""
    if shutil.which("gcc") is None or not building.can_compile():
        pytest.skip("install gcc and the headers of this Python")
    library = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    if not os.path.isabs(library):
        pytest.skip("gcc has no libasan here")
    environment = os.environ | {
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "PYTHONMALLOC": "malloc",
        OPTIONS_VARIABLE: "-fsanitize=address,undefined -fno-sanitize-recover=all",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", Path(__file__).parent],
        check=False, capture_output=True, text=True, env=environment, cwd=SOURCE.parents[2],
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "passed" in done.stdout
