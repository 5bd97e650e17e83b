"""Redelivery: a message that is due, or released, goes back to its queue or to the dead letters.
The mover and the server do it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import structlog

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name
from mq.spool.finder import is_taken
from mq.spool.locks import lock_names_in
from mq.spool.message.burial import bury
from mq.spool.message.held import Held
from mq.spool.message.seal import Seal
from mq.spool.moves import Moves, OpenFolder
from mq.spool.open_queues import OpenQueues
from mq.spool.queue.queue_settings import NO_DEAD_LETTERS, DeadLetterRule
from mq.spool.queue.queues import Made, has_queue, make_queue

log = structlog.get_logger(__name__)


class DeadQueueBeingDeleted(BlockingIOError):
    """The queue for dead letters is made when it is needed, but not while its deletion is
    unfinished."""


def redeliver(
    moves: Moves,
    held: Held,
    source: OpenFolder,
    queues: OpenQueues,
    rule: DeadLetterRule = NO_DEAD_LETTERS,
) -> QueueName | None:
    """Move a message `QUEUE:ID` of `source` to its queue or to the dead letters, and return which
    queue it is in now.

    A message that was received as often as `rule` says goes to the first queue of the rule that has
    no other message of its id. That queue is made if it is missing, and the message says from then
    on where it came from. If all have one, it goes back to its own queue, and dies after a later
    receive.

    Returns None if the message stays where it is: it is gone, or its queue is. Raises
    FileExistsError if the queue has another file of that name; nothing is replaced. Raises
    BlockingIOError while another process has that queue to itself; of a message that dies, also
    while another one makes a queue, or publishes its id to one of the two; DeadQueueBeingDeleted
    while the queue of the dead letters is deleted.
    """
    parsed = parse_file_name(held.name)
    assert parsed is not None
    queue, message_id = parsed
    dead = rule.queues_after(held.receive_count)
    with ExitStack() as undo:
        if dead and has_queue(moves.files, queues.fd, queue):
            queue = undo.enter_context(_locked_grave(moves.files, queues.fd, held, parsed, dead))
        try:
            opened = undo.enter_context(queues.shared(queue))
            if moves.files.status_of(source.fd, held.name).st_ino != held.status.st_ino:
                return None  # Another message has its id by now, and perhaps a receiver.
            moves.rename(source, held.name, OpenFolder(Folder.QUEUES, opened.fd), message_id)
        except NotADirectoryError:
            return None
        except FileNotFoundError:
            if queue in dead and not has_queue(moves.files, queues.fd, queue):
                raise _being_deleted(queue) from None
            return None
    return queue


@contextmanager
def _locked_grave(
    files: Files,
    queues_fd: int,
    held: Held,
    names: tuple[QueueName, MessageId],
    dead: Iterable[QueueName],
) -> Iterator[QueueName]:
    """Bury a message for the first queue of `dead` that has no other one of its id, and yield that
    queue; its own if all have one."""
    queue, message_id = names
    for each in dead:
        if make_queue(files, queues_fd, each) is Made.BEING_DELETED:
            raise _being_deleted(each)
        # Until the rename no other message of that id comes to either queue: not even to its own,
        # if that is deleted and made again meanwhile.
        both = [file_name(either, message_id) for either in (queue, each)]
        with _locked_ids(files, queues_fd, both):
            if not is_taken(files, queues_fd, each, message_id, held.status.st_ino):
                bury(files, held.fd, queue)
                yield each
                return
    yield queue


def _being_deleted(dead: QueueName) -> DeadQueueBeingDeleted:
    return DeadQueueBeingDeleted(errno.EWOULDBLOCK, "the queue is being deleted", dead)


@contextmanager
def _locked_ids(files: Files, queues_fd: int, names: Sequence[str]) -> Iterator[None]:
    """Keep other processes from bringing messages with these names, `QUEUE:ID`, to their queues.
    Raises BlockingIOError if one is about to. Without a file `format` nobody can: publishers and
    moves need it."""
    try:
        fd = lock_names_in(files, f"/proc/self/fd/{queues_fd}/..", names)
    except FileNotFoundError:
        yield
        return
    if fd is None:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process publishes that id", names[0])
    try:
        yield
    finally:
        files.close(fd)


def comes_back(seal: Seal | None) -> bool:
    """Return whether a message of `delay` with that seal was in its queue before. A delayed one was
    not."""
    return seal is None or seal.receive_count > 0


def lives_on(held: Held, rule: DeadLetterRule, went: QueueName | None) -> str | None:
    """Return why a message that was received too often was redelivered all the same, or None."""
    dead = rule.queues_after(held.receive_count)
    if not dead or went is None or went in dead:
        return None
    which = " and in queue ".join(dead)
    return f"another message of that id is in queue {which}; remove one of them"


def report_living(name: str, why: str) -> None:
    """Log a message that should be a dead letter."""
    log.warning("redelivered though it was received too often", name=name, why=why)
