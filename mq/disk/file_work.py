"""File work: chains of file calls with steps of Python in between.

A piece of file work is a generator. It yields the chain that it needs next and is sent its outcome.
So the chains of several pieces can be made in one go: the committer does that for the operations of
a round, `do_together` for the messages of one operation. Between two steps of one piece other
pieces make their file calls, as other processes may.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from mq.disk.calls import Chain, Outcome, run
from mq.disk.files import Files

T = TypeVar("T")


class FileCalls(NamedTuple):
    """A chain to be made. The work that yields it keeps its descriptors open."""

    files: Files
    chain: Chain


FileWork = Generator[FileCalls, Outcome, T]


def make_calls(needed: Sequence[FileCalls]) -> list[Outcome]:
    """Make the chains of several pieces of work, all of which use the same `Files`."""
    return run(needed[0].files, [each.chain for each in needed])


def do_together(works: Sequence[FileWork[T]]) -> list[T | Exception]:
    """Do all of the work, with the next chains of all pieces in one go. Returns for each piece its
    result, or what it raised."""
    outcomes: list[T | Exception] = [_NOT_DONE] * len(works)
    under_way: Sequence[int] = range(len(works))
    answers: list[Any] = [None] * len(works)
    while under_way:
        going: list[int] = []
        needed: list[FileCalls] = []
        for number, answer in zip(under_way, answers, strict=True):
            try:
                needed.append(works[number].send(answer))
                going.append(number)
            except StopIteration as stop:
                outcomes[number] = stop.value
            except Exception as error:
                outcomes[number] = error
        under_way, answers = going, make_calls(needed) if needed else []
    return outcomes


_NOT_DONE = RuntimeError("not done")
