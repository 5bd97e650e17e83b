"""Work that yields its file calls, with those of others made in the same go."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.disk import calls, file_work
from mq.disk.calls import ATTRIBUTE, CLOSE, LINK, OPEN_UNNAMED, STATUS_OF, WRITE, Chain, check
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.disk.files import Files
from tests.support.descriptors import open_descriptors

FILES = Files()


def put(folder: int, name: str, body: bytes) -> FileWork[int]:
    """Returns how many bytes the file has."""
    made = ((OPEN_UNNAMED, folder, 0o600), (WRITE, ~0, body), (LINK, ~0, folder, name), (CLOSE, ~0))
    check((yield FileCalls(FILES, made)))
    (status,) = check((yield FileCalls(FILES, ((STATUS_OF, folder, name),))))
    return int(status[5])


def test_each_has_its_result_or_what_it_raised(folder: int) -> None:
    results = do_together([put(folder, "a", b"one"), put(folder, "a", b""), put(folder, "b", b"")])

    assert results[::2] == [3, 0]
    assert isinstance(results[1], FileExistsError)


def test_the_calls_of_all_are_made_in_one_go(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(files: Files, chains: list[Chain]) -> list[tuple[list[object], int]]:
        made.append(len(chains))
        return calls.run(files, chains)

    monkeypatch.setattr(file_work, "run", counted)
    do_together([put(folder, name, b"body") for name in "abc"])

    assert made == [3, 3]


def test_work_without_calls_needs_no_go() -> None:
    def idle() -> FileWork[int]:
        return 7
        yield

    assert do_together([idle()]) == [7]
    assert do_together([]) == []


def test_what_one_raises_between_its_calls_is_no_matter_to_the_others(folder: int) -> None:
    def fails() -> FileWork[int]:
        _, code = yield FileCalls(FILES, ((ATTRIBUTE, 10_000, "user.mq"),))
        raise OSError(code, os.strerror(code))

    (error, length) = do_together([fails(), put(folder, "a", b"body")])

    assert isinstance(error, OSError)
    assert (error.errno, length) == (errno.EBADF, 4)


def test_nothing_is_open_after_it(folder: int, tmp_path: Path) -> None:
    before = open_descriptors()
    do_together([put(folder, name, b"body") for name in "aab"])

    assert open_descriptors() == before
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
