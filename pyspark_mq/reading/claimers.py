"""A large claim by several processes: this one, and helpers that it forks.

A claim is system calls, and Python makes them one at a time. So the messages are cut into chunks,
whose numbers lie in a pipe; each process takes the next number, claims that chunk, and goes on. A
helper answers through its own pipe how many it claimed of each. All of them rename into one open
folder, which only the driver seals, when every chunk is done. A helper that cannot be started, or
dies, leaves its chunk to the driver, which then meets the same error. A helper outlives a killed
driver by one chunk at most, and what it claims then is given back with all that was open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from struct import Struct
from typing import BinaryIO

from mq.disk.child_processes import Helper, processors
from mq.names import MessageId, QueueName
from mq.spool.spark.claiming import Claim, Taken
from pyspark_mq.reading.balance import Shares

Message = tuple[QueueName, MessageId]

CHUNK_MESSAGES = 250
_MOST_CHUNKS = 2000
"""A pipe has room for this many numbers and answers."""

_NUMBER = Struct("i")
_ANSWER = Struct("ii")


def claim_side_by_side(claim: Claim, messages: Sequence[Message], parts: int) -> int:
    """Take messages into the parts of an open claim. Returns how many are in it. Raises ClaimError
    and OSError; the claim is then for `give_back_open`."""
    size = max(CHUNK_MESSAGES, -(-len(messages) // _MOST_CHUNKS))
    chunks = [messages[start : start + size] for start in range(0, len(messages), size)]
    processes = min(processors(), len(chunks))
    take = _taker(claim, parts, 0)
    taken: dict[int, int] = {}
    with ExitStack() as stack:
        numbers = _numbers_in_a_pipe(len(chunks))
        stack.callback(os.close, numbers)
        helpers = [
            stack.enter_context(closing(Helper(partial(_help, numbers, chunks, take_beside))))
            for take_beside in (_taker(claim, parts, process) for process in range(1, processes))
        ]
        for number in _numbers_from(numbers):
            taken[number] = take(chunks[number])
        for helper in helpers:
            taken.update(_answers_of(helper))
    unanswered = [chunk for number, chunk in enumerate(chunks) if number not in taken]
    if not unanswered:
        return sum(taken.values())
    for chunk in unanswered:
        take(chunk)
    return claim.count()


def _taker(claim: Claim, parts: int, process: int) -> Callable[[Sequence[Message]], int]:
    """Return the function with which one process takes a chunk. Each process fills all parts
    evenly, and begins with a part of its own."""
    shares = Shares(parts, process)

    def take(messages: Sequence[Message]) -> int:
        return claim.take_many(messages, shares.next_for).count(Taken.YES)

    return take


def _numbers_in_a_pipe(count: int) -> int:
    """Return a descriptor from which any process that has it can read the numbers, one at a
    time."""
    numbers, writing = os.pipe()
    with open(writing, "wb") as pipe:
        pipe.write(b"".join(map(_NUMBER.pack, range(count))))
    return numbers


def _numbers_from(numbers: int) -> Iterator[int]:
    while data := os.read(numbers, _NUMBER.size):
        yield _NUMBER.unpack(data)[0]


def _answers_of(helper: Helper) -> dict[int, int]:
    """Return how many messages a helper took of each chunk, once it has ended. The chunk during
    which it died is missing."""
    data = b""
    while not helper.has_ended:
        data += helper.read(wait=True)
    whole = len(data) - len(data) % _ANSWER.size
    return dict(_ANSWER.iter_unpack(data[:whole]))


def _help(
    numbers: int,
    chunks: Sequence[Sequence[Message]],
    take: Callable[[Sequence[Message]], int],
    pipe: BinaryIO,
) -> None:
    """Do all the work of the forked process."""
    for chunk in _numbers_from(numbers):
        pipe.write(_ANSWER.pack(chunk, take(chunks[chunk])))
