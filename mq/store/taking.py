"""Take a ready message whose id comes from the index, by two chains of file calls."""

from __future__ import annotations

from collections.abc import Sequence

from mq.config import MAX_FETCH_BYTES, SMALL_BODY_BYTES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path
from mq.spool.file_work import FileWork
from mq.spool.message import FAULTS_OF_ONE_MESSAGE, Lost
from mq.spool.opening import open_and_read
from mq.store.answer_memory import Share
from mq.store.context import Workspace
from mq.store.lease import Place, Received, begin_lease, take_held

_QUEUES = Folder.QUEUES


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
        self.is_full = self.is_full or length > self._left
        if not self.is_full:
            self._left -= length
        return not self.is_full


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
    name = queue_path(queue, message_id)
    place = Place(_QUEUES, queue, message_id, name)
    try:
        opened = yield from open_and_read(work.spool, _QUEUES, name, SMALL_BODY_BYTES)
        if isinstance(opened, Lost):
            if opened is Lost.FOREIGN:
                work.report(f"{Folder.QUEUES}/{place.name}", opened.value)
            return opened
        if room is not None and not room.takes(opened.held.status.st_size):
            opened.held.close()
            return None
        return (yield from take_held(work, place, opened, visibility_ns, begin_lease))
    except OSError as error:
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            work.ready.restore(queue, message_id)
            raise
        work.report(f"{Folder.QUEUES}/{place.name}", str(error.strerror))
        return None
