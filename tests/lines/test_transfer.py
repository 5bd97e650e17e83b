"""Lines that are published together, below `mqctl import`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path

import pytest

from mq.config import MAX_BATCH_LINES
from mq.lines.ndjson import Line
from mq.lines.transfer import TakenOut, put_in, take_out


@pytest.fixture
def pipe() -> Iterator[tuple[BufferedIOBase, BufferedIOBase]]:
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "wb") as writer:
        yield reader, writer


def test_a_pipe_takes_many_lines_while_a_batch_is_on_its_way(
    pipe: tuple[BufferedIOBase, BufferedIOBase],
) -> None:
    """So that the next batches are large: a pipe usually holds 64 KiB."""
    reader, writer = pipe
    text = b'{"body": "%s"}\n' % (200 * b"x")
    under_way, written = threading.Event(), threading.Event()
    batches: list[int] = []

    def write() -> None:
        writer.write(2 * text)
        writer.flush()
        assert under_way.wait(30)
        writer.write(2 * MAX_BATCH_LINES * text)
        writer.close()
        written.set()

    def begin(lines: Sequence[Line]) -> Callable[[], bool]:
        batches.append(len(lines))

        def end() -> bool:
            under_way.set()
            return written.wait(30 if len(batches) == 1 else 0)

        return end

    thread = threading.Thread(target=write)
    thread.start()
    published = list(put_in(reader, lambda line: None, begin))
    thread.join()

    assert published[-1] == 2 * MAX_BATCH_LINES + 2
    assert batches == [2, MAX_BATCH_LINES, MAX_BATCH_LINES]


def test_as_many_are_taken_out_as_asked_for_however_many_batches_that_takes(
    tmp_path: Path,
) -> None:
    ready = iter(range(400))
    told: list[int] = []

    with (tmp_path / "lines").open("wb") as lines:
        kept = take_out(
            lambda: TakenOut(Line(b"%d" % next(ready)), lambda: True), lines, 250, told.append
        )

    assert kept == 0
    assert (tmp_path / "lines").read_bytes().count(b"\n") == 250 == told[-1]
    assert next(ready) == 250
