"""A batch read: it looks at messages of any state, and takes nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mq.errors import QueueNotFound
from mq.lifecycle import Folder, State
from mq.names import (
    DEAD_SUFFIX,
    MessageId,
    QueueName,
    file_name,
    is_message_id,
    parse_file_name,
    queue_path,
)
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.held import Opened, look_at
from mq.spool.message.seal import Seal, state_in
from mq.spool.queue.queues import has_queue
from mq.spool.spool import Spool
from pyspark_mq.job_root import visit_job_root
from pyspark_mq.options.options import Options
from pyspark_mq.options.queue_patterns import is_pattern, match_queues
from pyspark_mq.portable import Portable
from pyspark_mq.reading.balance import balance
from pyspark_mq.reading.read_columns import (
    MessageRow,
    read_row,
    refuse_damaged,
    row_without_body,
    to_batches,
)

_ALIVE = (Folder.QUEUES, Folder.DELAY, Folder.QUEUES)
"""A message may move on between the listing and the read, or between two looks."""


class SeenMessage(NamedTuple):
    """Where a message was seen, and its size in bytes."""

    folder: Folder
    name: str
    queue: QueueName
    message_id: MessageId
    length: int


class SeenMessages(InputPartition):
    """The messages that one task reads."""

    def __init__(self, messages: Sequence[SeenMessage]) -> None:
        self.messages = messages


class BatchReader(Portable, DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with closing(visit_job_root(self._options)) as spool:
            messages = find_messages(spool, self._options)
        parts = balance(messages, self._options.num_partitions, lambda seen: seen.length)
        return [SeenMessages(sorted(part)) for part in parts if part]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        messages = partition.messages if isinstance(partition, SeenMessages) else ()
        with closing(visit_job_root(self._options)) as spool:
            yield from to_batches(self._rows(spool, messages))

    def _rows(self, spool: Spool, messages: Sequence[SeenMessage]) -> Iterator[MessageRow]:
        wanted = set(self._options.states)
        if "ready" in wanted:
            wanted.add("dead")  # They are of a queue of dead letters that was named.
        for seen in messages:
            found = _open(spool, seen)
            if found is None:
                continue
            with found[1] as opened:
                state = _state(found[0], seen.queue, opened.seal)
                if state not in wanted:
                    continue
                if not self._options.has_bodies:
                    yield row_without_body(opened, seen.queue, seen.message_id, state)
                    continue
                row = read_row(spool.files, opened, seen.queue, seen.message_id, state)
            if row.value is None and self._options.is_failfast:
                refuse_damaged(row, f"{seen.folder}/{seen.name}")
            yield row


def find_messages(spool: Spool, options: Options) -> list[SeenMessage]:
    """Return every message of the queues in one of the states, once. Raises QueueNotFound for a
    queue that is named and does not exist."""
    queues = set(existing_queues(spool, options.queues))
    dead = _dead_letter_queues(spool, options.queues)
    found: dict[tuple[QueueName, str], SeenMessage] = {}
    for seen in _look(spool, queues, dead, frozenset(options.states)):
        found[seen.queue, seen.name.replace("/", ":", 1)] = seen
    return list(found.values())


def existing_queues(spool: Spool, patterns: tuple[str, ...]) -> list[QueueName]:
    """Return the queues that match. Raises QueueNotFound for one that is named and does not
    exist."""
    for name in patterns:
        if not is_pattern(name) and not has_queue(spool.files, spool.fd(Folder.QUEUES), name):
            raise QueueNotFound(
                f"option queue: there is no queue {name} in {spool.root}; make it with PUT /{name} "
                f"or mqctl create {name}"
            )
    return match_queues(patterns, spool.queue_names())


def _dead_letter_queues(spool: Spool, patterns: tuple[str, ...]) -> set[QueueName]:
    """Return the queues of dead letters whose queues match, or that match themselves. Such a queue
    may have outlived its own."""
    dead = {name for name in spool.queue_names() if name.endswith(DEAD_SUFFIX)}
    own = [name.removesuffix(DEAD_SUFFIX) for name in dead]
    matched = match_queues(patterns, [*own, *dead])
    return {QueueName(name.removesuffix(DEAD_SUFFIX) + DEAD_SUFFIX) for name in matched}


def _look(
    spool: Spool, queues: set[QueueName], dead: set[QueueName], states: frozenset[str]
) -> Iterator[SeenMessage]:
    """Yield the messages of these states, some twice. `delay` is looked at before the queues and
    after them: so a message that is received or comes back once meanwhile is found."""
    folders = (queues if "ready" in states else set()) | (dead if "dead" in states else set())
    has_hidden = not states.isdisjoint({"leased", "delayed"})
    if has_hidden and folders:
        yield from _in_flat_folder(spool, Folder.DELAY, queues)
    for queue in folders:
        yield from _in_queue(spool, queue)
    if has_hidden:
        yield from _in_flat_folder(spool, Folder.DELAY, queues)
    if "removed" in states:
        yield from _in_flat_folder(spool, Folder.REMOVE, queues)


def _in_queue(spool: Spool, queue: QueueName) -> Iterator[SeenMessage]:
    try:
        names = spool.names_in_queue(queue)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if is_message_id(name):
            path = queue_path(queue, MessageId(name))
            yield from _at(spool, Folder.QUEUES, path, queue, MessageId(name))


def _in_flat_folder(spool: Spool, folder: Folder, queues: set[QueueName]) -> Iterator[SeenMessage]:
    for name in spool.names(folder):
        # A second removed message with the same id ends with `~2`.
        parsed = parse_file_name(name.partition("~")[0])
        if parsed is not None and parsed[0] in queues:
            yield from _at(spool, folder, name, *parsed)


def _at(
    spool: Spool, folder: Folder, name: str, queue: QueueName, message_id: MessageId
) -> Iterator[SeenMessage]:
    """Yield the message of that name, and nothing if there is none."""
    status = spool.status(folder, name)
    if status is not None and stat.S_ISREG(status.st_mode):
        yield SeenMessage(folder, name, queue, message_id, status.st_size)


def _open(spool: Spool, seen: SeenMessage) -> tuple[Folder, Opened] | None:
    """Open a message where it was seen, or where it went since. Returns None if it is gone, or may
    not be opened."""
    ways = [(seen.folder, seen.name)]
    if seen.folder is not Folder.REMOVE:
        flat = file_name(seen.queue, seen.message_id)
        below = queue_path(seen.queue, seen.message_id)
        ways += [(folder, below if folder is Folder.QUEUES else flat) for folder in _ALIVE]
        ways.append((Folder.REMOVE, flat))
    for folder, name in ways:
        try:
            opened = look_at(spool, folder, name)
        except OSError as error:
            if error.errno not in FAULTS_OF_ONE_MESSAGE:
                raise
            # A peek passes it over too.
            return None
        if opened is not None:
            return folder, opened
    return None


def _state(folder: Folder, queue: QueueName, seal: Seal | None) -> str:
    state = state_in(folder, seal)
    return "dead" if state is State.READY and queue.endswith(DEAD_SUFFIX) else state
