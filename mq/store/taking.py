"""Take a ready message whose id comes from the index, by two chains of file calls."""

from __future__ import annotations

import stat
from collections.abc import Sequence

from mq.config import MAX_FETCH_BYTES, SMALL_BODY_BYTES
from mq.disk.calls import CLOSE, SET_ATTRIBUTE, STAMP, Outcome
from mq.disk.file_work import FileCalls, FileWork
from mq.disk.status import INODE, MODE, OWNER, SIZE, Status
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.burial import burial_in
from mq.spool.message import FAULTS_OF_ONE_MESSAGE, Held, Lost, content_type_of
from mq.spool.open_queues import OpenQueue
from mq.spool.opening import opened_by, reading
from mq.spool.seal import SEAL_ATTRIBUTE, Seal, round_up
from mq.spool.trailer import split
from mq.store.answer_memory import Share
from mq.store.context import Workspace
from mq.store.lease import (
    Place,
    Received,
    begin_lease,
    break_off,
    note_first_receive,
    place_in,
    take_held,
)

_QUEUES, _DELAY = Folder.QUEUES, Folder.DELAY


class AnswerRoom:
    """How many bytes of bodies may still come into one answer: MAX_FETCH_BYTES, or what the share
    of the memory holds. The first body is always taken."""

    def __init__(self, taken: Sequence[Received], share: Share | None) -> None:
        self._share = share
        self._used = sum(each.file_length for each in taken)
        self._is_first = not taken
        self._left: int | None = None
        self.is_full = False

    def takes(self, length: int) -> bool:
        """Return whether a body fits. Once one did not fit, none that follows it does."""
        if self._is_first:
            self._is_first, self._used = False, length
            return True
        if self._left is None:
            room = MAX_FETCH_BYTES if self._share is None else self._share.room_bytes()
            self._left = room - self._used
        if self.is_full or length > self._left:
            self.is_full = True
            return False
        self._left -= length
        return True


def take_ready(
    work: Workspace,
    queue: QueueName,
    message_id: MessageId,
    visibility_ns: int,
    room: AnswerRoom | None = None,
) -> FileWork[Received | Lost | None]:
    """Lock, read, stamp and rename a message. Returns None if there is no room for its body, or if
    something is wrong with this message alone, which is reported. A failure leaves the message as
    it was. Raises OSError."""
    spool, files = work.spool, work.files
    try:
        try:
            opened = spool.queues.open(queue)
        except (FileNotFoundError, NotADirectoryError):
            return Lost.GONE
        outcome = yield FileCalls(files, reading(spool, opened.fd, message_id, SMALL_BODY_BYTES))
        usual = _begin_usual(work, queue, message_id, outcome, visibility_ns)
        if usual is None:
            place = place_in(_QUEUES, queue, message_id)
            return (yield from _take_unusual(work, place, outcome, visibility_ns, room))
        return (yield from _take_usual(work, opened, outcome, usual, room))
    except OSError as error:
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            work.ready.restore(queue, message_id)
            raise
        work.report(f"{_QUEUES}/{queue_path(queue, message_id)}", str(error.strerror))
        return None


def _take_unusual(
    work: Workspace,
    place: Place,
    outcome: Outcome,
    visibility_ns: int,
    room: AnswerRoom | None,
) -> FileWork[Received | Lost | None]:
    opened = opened_by(work.spool, _QUEUES, place.name, outcome)
    if isinstance(opened, Lost):
        if opened is Lost.FOREIGN:
            work.report(f"{_QUEUES}/{place.name}", opened.value)
        return opened
    if room is not None and not room.takes(opened.held.status.st_size):
        opened.held.close()
        return None
    return (yield from take_held(work, place, opened, visibility_ns, begin_lease))


def _begin_usual(
    work: Workspace,
    queue: QueueName,
    message_id: MessageId,
    outcome: Outcome,
    visibility_ns: int,
) -> tuple[Received, bytes] | None:
    """Return a message as its lease will be, and its packed seal then; or None if anything is
    unusual: `take_held` finds out what. For a small message that is whole and has a seal this comes
    to the same in a third of the time. A test compares them."""
    results, code = outcome
    if code or len(results) != _USUAL_RESULTS or work.files.is_of_network:
        return None
    _, _, status, named, attribute, data, kind, burial = results
    sealed = Seal.unpack(attribute)
    if (
        sealed is None
        or data is None
        or named[INODE] != status[INODE]
        or not stat.S_ISREG(status[MODE])
        or status[OWNER] not in work.files.owners
    ):
        return None
    content = split(sealed, data)
    if content is None:
        return None
    body, properties = content
    fresh = begin_lease(sealed, work.leases.next())
    if work.spool.has_long_seals or fresh.is_long:
        fresh = note_first_receive(work, fresh)
    received = Received(
        queue,
        message_id,
        sealed.length,
        sealed,
        None if kind is None else content_type_of(kind),
        fresh.lease,
        fresh.receive_count,
        sealed.published_ns,
        round_up(work.clock_ns() + visibility_ns, work.granularity_ns),
        body,
        -1,
        None,
        False,
        properties,
        fresh.first_received_ns,
        None if burial is None else burial_in(burial, queue),
    )
    return received, fresh.pack()


_USUAL_RESULTS = 8


def _take_usual(
    work: Workspace,
    opened: OpenQueue,
    outcome: Outcome,
    usual: tuple[Received, bytes],
    room: AnswerRoom | None,
) -> FileWork[Received | Lost | None]:
    """Make the lease that `_begin_usual` has returned, of a message in the folder of its queue."""
    (received, seal), results = usual, outcome[0]
    fd, is_open = results[0], True
    try:
        if room is not None and not room.takes(results[2][SIZE]):
            return None
        name = received.message_id
        target = file_name(received.queue, name)
        chain = (
            (SET_ATTRIBUTE, fd, SEAL_ATTRIBUTE, seal),
            (STAMP, fd, received.visible_ns),
            work.spool.rename_call(_QUEUES, opened.fd, name, _DELAY, target),
            (CLOSE, fd),
        )
        done, code = yield FileCalls(work.files, chain)
        is_open = len(done) < len(chain)
        if len(done) >= len(chain) - 1:
            return received
        held = Held(work.files, name, fd, Status._make(results[2]), received.sealed)
        return break_off(held, received.sealed if done else None, code)
    finally:
        if is_open:
            work.files.close(fd)
