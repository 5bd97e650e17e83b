"""File calls as values: natively and in Python the same calls, in the same order, with the same
outcome."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mq.disk.calls import (
    ABSENT,
    ATTRIBUTE,
    CLOSE,
    LINK,
    LOCK,
    OPEN_MESSAGE,
    OPEN_TO_LOOK,
    OPEN_UNNAMED,
    READ,
    RENAME,
    SET_ATTRIBUTE,
    STAMP,
    STATUS,
    STATUS_OF,
    SYNC,
    WRITE,
    Chain,
    Outcome,
    check,
    run,
)
from mq.disk.files import Files
from mq.disk.status import Status, fields
from tests.support.chains import BODY, LIMIT, SEAL, get, put
from tests.support.descriptors import open_files
from tests.support.native import used
from tests.support.users import NOBODY, needs_root


@pytest.fixture(params=["native", "python"])
def runner(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways, one after the other."""
    way = str(request.param)
    with used(request.getfixturevalue("native") if way == "native" else None):
        yield way


def test_a_message_is_put_down_and_read_again(runner: str, folder: int, tmp_path: Path) -> None:
    [(published, code), (received, later)] = run(
        Files(), [(*put(folder, "one"), (CLOSE, ~0)), get(folder, "one")]
    )

    assert (code, later) == (0, 0)
    assert published == [-1, *[None] * 7]
    status = Status._make(received[2])
    assert status == Status._make(received[3])
    assert (status.st_size, status.st_nlink, status.st_mtime_ns) == (len(BODY), 1, 5_000_000_007)
    assert received[4:7] == [b"seal", None, BODY]
    assert os.listdir(tmp_path) == ["one-received"]
    assert fields(os.stat("one-received", dir_fd=folder))._replace(
        st_ctime_ns=0
    ) == status._replace(st_ctime_ns=0)


def test_what_a_chain_opens_is_the_callers_if_it_succeeds(runner: str, folder: int) -> None:
    [fd, *_] = check(run(Files(), [put(folder, "one")])[0])

    assert os.pread(fd, 100, 0) == BODY
    assert not os.get_inheritable(fd)
    assert run(Files(), [((OPEN_MESSAGE, folder, "one"), (LOCK, ~0))]) == [([-1], errno.EAGAIN)]
    os.close(fd)


def test_a_chain_that_fails_ends_there_and_the_next_one_runs(
    runner: str, folder: int, tmp_path: Path
) -> None:
    before = open_files()
    (tmp_path / "taken").touch()

    [taken, gone, fine] = run(
        Files(), [put(folder, "taken"), get(folder, "gone"), (*put(folder, "fine"), (CLOSE, ~0))]
    )

    assert taken == ([-1, *[None] * 5], errno.EEXIST)
    assert gone == ([], errno.ENOENT)
    assert fine[1] == 0
    assert open_files() == before
    with pytest.raises(FileExistsError):
        check(taken)


def test_each_failure_has_its_number(runner: str, folder: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    (tmp_path / "taken").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    failing: list[tuple[Chain, Outcome]] = [
        (((OPEN_MESSAGE, folder, "link"),), ([], errno.ELOOP)),
        (((OPEN_MESSAGE, folder, "x" * 300),), ([], errno.ENAMETOOLONG)),
        (((OPEN_MESSAGE, folder, "file/x"),), ([], errno.ENOTDIR)),
        (((OPEN_MESSAGE, folder, "file"), (WRITE, ~0, BODY)), ([-1], errno.EBADF)),
        (((RENAME, folder, "file", folder, "taken"),), ([], errno.EEXIST)),
        (((RENAME, folder, "gone", folder, "new"),), ([], errno.ENOENT)),
        (((OPEN_UNNAMED, 2**31 - 1, 0o600),), ([], errno.EBADF)),
        (((OPEN_UNNAMED, folder, 0o600), (CLOSE, ~0), (LOCK, ~0)), ([-1, None], errno.EBADF)),
        (((OPEN_MESSAGE, folder, "pipe"), (SYNC, ~0)), ([-1], errno.EINVAL)),
        (((STATUS, 2**31 - 1),), ([], errno.EBADF)),
        (((CLOSE, 2**31 - 1),), ([], errno.EBADF)),
        (((ATTRIBUTE, 2**31 - 1, SEAL),), ([], errno.EBADF)),
        (
            ((OPEN_MESSAGE, folder, "file"), (SET_ATTRIBUTE, ~0, "bare", b"")),
            ([-1], errno.EOPNOTSUPP),
        ),
    ]
    before = open_files()

    assert run(Files(), [chain for chain, _ in failing]) == [outcome for _, outcome in failing]
    assert open_files() == before


@needs_root
def test_a_file_of_another_user_is_opened_to_look_at_as_any_message_is(
    runner: str, folder: int, tmp_path: Path
) -> None:
    (tmp_path / "foreign").write_bytes(BODY)
    (tmp_path / "foreign").chmod(0o644)
    tmp_path.chmod(0o755)
    chain = ((OPEN_TO_LOOK, folder, "foreign"), (STATUS, ~0), (READ, ~0, 1, LIMIT), (CLOSE, ~0))

    os.seteuid(NOBODY)  # Without the privilege, O_NOATIME is for the owner alone.
    try:
        [found] = run(Files(), [chain])
    finally:
        os.seteuid(0)

    assert check(found)[2] == BODY


def test_a_body_is_read_up_to_the_limit_and_not_beyond(
    runner: str, folder: int, tmp_path: Path
) -> None:
    (tmp_path / "one").write_bytes(b"x" * LIMIT)
    (tmp_path / "empty").touch()

    def read(name: str, limit: int) -> Any:
        chain = ((OPEN_MESSAGE, folder, name), (STATUS, ~0), (READ, ~0, 1, limit), (CLOSE, ~0))
        return check(run(Files(), [chain])[0])[2]

    assert read("one", LIMIT) == b"x" * LIMIT
    assert read("one", LIMIT - 1) is None
    assert read("empty", 0) == b""


def test_a_file_that_has_become_shorter_is_read_to_its_end(
    runner: str, folder: int, tmp_path: Path
) -> None:
    (tmp_path / "long").write_bytes(BODY * 2)
    (tmp_path / "short").write_bytes(BODY)
    chain = (
        (OPEN_MESSAGE, folder, "short"),
        (STATUS_OF, folder, "long"),
        (READ, ~0, 1, LIMIT),
        (CLOSE, ~0),
    )

    assert check(run(Files(), [chain])[0])[2] == BODY


def test_a_short_read_goes_on_where_it_stopped(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_bytes(b"0123456789")
    read, files = os.pread, Files()
    fd = files.open_message(folder, "one")
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: read(fd, min(length, 3), offset))

    assert [files.read(fd, 8, 1), files.read(fd, 20)] == [b"12345678", b"0123456789"]
    files.close(fd)


def test_a_look_for_what_is_absent_ends_a_chain_at_what_is_there(
    runner: str, folder: int, tmp_path: Path
) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    absent = [(ABSENT, folder, name) for name in ("gone", "there/below", "gone/below", "dangling")]

    assert run(Files(), [(*absent, (ABSENT, folder, "there"))]) == [([None] * 4, errno.EEXIST)]
    assert run(Files(), [tuple(absent)]) == [([None] * 4, 0)]


@pytest.mark.parametrize(
    ("time_ns", "seen"),
    [
        (-(10**18), 0),
        (-1, 0),
        (9_300_000_000 * 10**9 + 7, 9_300_000_000 * 10**9 + 7),
        (18_446_744_072 * 10**9 + 7, 18_446_744_072 * 10**9 + 7),
        (18_446_744_073 * 10**9, 2**64 - 1),
        (10**20, 2**64 - 1),
    ],
)
def test_a_time_is_within_64_bits(runner: str, time_ns: int, seen: int) -> None:
    """The file is in memory, where it keeps any time."""
    memory = os.memfd_create("file")
    os.utime(memory, ns=(0, time_ns))

    [[fields]] = [check(each) for each in run(Files(), [((STATUS, memory),)])]

    os.close(memory)
    assert Status(*fields).st_mtime_ns == seen


@pytest.mark.parametrize("size", [0, 255, 256, 257, 3000])
def test_an_attribute_comes_whole(runner: str, folder: int, tmp_path: Path, size: int) -> None:
    (tmp_path / "one").touch()
    os.setxattr(tmp_path / "one", SEAL, b"s" * size)

    chain = ((OPEN_MESSAGE, folder, "one"), (ATTRIBUTE, ~0, SEAL), (CLOSE, ~0))
    assert check(run(Files(), [chain])[0])[1] == b"s" * size


@pytest.mark.parametrize("body", [BODY, bytearray(BODY), memoryview(BODY), memoryview(BODY)[:0]])
def test_a_body_is_anything_with_bytes(
    runner: str, folder: int, tmp_path: Path, body: bytes | bytearray | memoryview
) -> None:
    check(run(Files(), [(*put(folder, "one", body), (CLOSE, ~0))])[0])

    assert (tmp_path / "one").read_bytes() == bytes(body)


def test_names_are_what_the_file_system_has(runner: str, folder: int, tmp_path: Path) -> None:
    """Names that are not UTF-8 are kept, too."""
    names = ["one", "größe", os.fsdecode(b"\xff\xfe")]

    for name in names:
        check(run(Files(), [(*put(folder, name), (CLOSE, ~0)), get(folder, name)])[1])
    assert sorted(os.listdir(tmp_path)) == sorted(f"{name}-received" for name in names)


NO_CHAINS: dict[str, tuple[Callable[[int], Any], type[Exception] | tuple[type[Exception], ...]]] = {
    "a name with NUL": (lambda fd: (OPEN_MESSAGE, fd, "a\0b"), ValueError),
    "a name with NUL beside other letters": (lambda fd: (OPEN_MESSAGE, fd, "ä\0b"), ValueError),
    "a new name with NUL": (lambda fd: (RENAME, fd, "a", fd, "b\0c"), ValueError),
    "a lone surrogate": (lambda fd: (OPEN_MESSAGE, fd, "\ud800"), UnicodeEncodeError),
    "a name in bytes": (lambda fd: (RENAME, fd, b"a", fd, "b"), (TypeError, AttributeError)),
    "no name": (lambda fd: (OPEN_MESSAGE, fd, None), TypeError),
    "a text as body": (lambda fd: (WRITE, fd, "text"), TypeError),
    "a body in pieces": (lambda fd: (WRITE, fd, memoryview(BODY)[::2]), BufferError),
    "a float": (lambda fd: (STAMP, fd, 1.5), TypeError),
    "a float as descriptor": (lambda fd: (STATUS, 1.5), TypeError),
    "a descriptor that is too large": (lambda fd: (OPEN_MESSAGE, 2**31, "a"), OverflowError),
    "a descriptor that is far too large": (lambda fd: (STATUS, 2**80), OverflowError),
    "a time that is too large": (lambda fd: (STAMP, fd, 2**100), OverflowError),
    "a call to come": (lambda fd: (LOCK, ~1), ValueError),
    "the call itself": (lambda fd: (LOCK, ~0), ValueError),
    "a reference far away": (lambda fd: (LOCK, -(2**31)), ValueError),
    "no status": (lambda fd: (READ, fd, 0, LIMIT), ValueError),
    "too few arguments": (lambda fd: (OPEN_MESSAGE, fd), TypeError),
    "too many arguments": (lambda fd: (STATUS, fd, 1), TypeError),
    "no kind": (lambda fd: (), (TypeError, ValueError)),
    "an unknown kind": (lambda fd: (99, fd), (OverflowError, IndexError)),
    "no tuple": (lambda fd: None, TypeError),
}


@pytest.mark.parametrize("wrong", NO_CHAINS)
def test_what_is_no_chain_raises_and_leaves_nothing_open(
    runner: str, folder: int, tmp_path: Path, wrong: str
) -> None:
    make, expected = NO_CHAINS[wrong]
    before = open_files()

    with pytest.raises(expected):
        run(Files(), [put(folder, "one"), (make(folder),)])

    assert open_files() == before
    assert os.listdir(tmp_path) == ([] if runner == "native" else ["one"])


def test_many_chains_run_in_their_order(runner: str, folder: int, tmp_path: Path) -> None:
    """The first of two chains that want one name gets it."""
    names = [f"name-{number // 2}" for number in range(2000)]
    put_down = [((OPEN_UNNAMED, folder, 0o600), (LINK, ~0, folder, n), (CLOSE, ~0)) for n in names]

    outcomes = run(Files(), put_down)

    assert [code for _, code in outcomes] == [0, errno.EEXIST] * 1000
    assert len(os.listdir(tmp_path)) == 1000
    assert run(Files(), []) == []
    assert run(Files(), [()]) == [([], 0)]
