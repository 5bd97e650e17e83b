"""Take ready messages whose ids come from the index, each by two chains of file calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import compress

from mq.config import SMALL_BODY_BYTES
from mq.disk.calls import CLOSE, CODE, SET_ATTRIBUTE, STAMP, Chain, Outcome, run
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.disk.status import SIZE, Status
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.held import NO_FD, Held, Lost
from mq.spool.message.opening import lost_in, opened_by, reading, readings
from mq.spool.message.seal import SEAL_ATTRIBUTE, round_up
from mq.store.answer_memory import AnswerRoom
from mq.store.place import place_in
from mq.store.receiving.lease import begin_lease, break_off, take_held
from mq.store.receiving.received_message import Received
from mq.store.receiving.usual import Usual, begin_usual, close_usual
from mq.store.shared_state import Workspace

_QUEUES, _DELAY = Folder.QUEUES, Folder.DELAY

Taken = Received | Lost | None
"""What became of a message that was to be taken. None: there was no room for its body, or something
is wrong with it alone, which was reported."""

_DENIALS = {errno.EACCES, errno.EPERM}
MOST_DENIED = 1000
"""A receive passes over this many messages that it may not take. While it tries them, requests to
all queues wait."""

_LEASE_CALLS = 3
"""How many of `Taker.lease_calls` make the lease."""


class Taker:
    """Takes ready messages of one queue for one receiver, each hidden for `visibility_ns`.

    A message is locked, read, stamped and renamed. A failure leaves it as it was.
    """

    __slots__ = ("_denied", "_fd", "_queue", "_visibility_ns", "_work")

    def __init__(self, work: Workspace, queue: QueueName, visibility_ns: int) -> None:
        self._work = work
        self._queue = queue
        self._visibility_ns = visibility_ns
        self._fd = NO_FD
        self._denied = 0

    def take(self, message_id: MessageId) -> FileWork[Taken]:
        """Take a message. Raises OSError."""
        work = self._work
        try:
            self._fd = work.spool.queues.open(self._queue).fd
        except (FileNotFoundError, NotADirectoryError):
            return Lost.GONE
        except OSError:
            work.ready.restore(self._queue, message_id)
            raise
        chain = reading(work.spool, self._fd, message_id, SMALL_BODY_BYTES)
        outcome = yield FileCalls(work.files, chain)
        usual = begin_usual(self._work, self._queue, message_id, outcome, self._visible_ns())
        if usual is None:
            return (yield from self._take_unusual(message_id, outcome, None))
        return (yield from self._take_usual(usual))

    def take_together(self, ids: Sequence[MessageId], room: AnswerRoom) -> list[Taken | Exception]:
        """Take several messages as far as the answer has room, with the file calls of all in one
        go. Returns for each what `take` returns or raises."""
        try:
            chains = self.readings(ids)
        except OSError:
            return do_together([self.take(each) for each in ids])
        return self.take_read(ids, run(self._work.files, chains), room)

    def readings(self, ids: Sequence[MessageId]) -> list[Chain]:
        """Open the queue, and return the calls that open and read several of its messages. Raises
        OSError."""
        self._fd = self._work.spool.queues.open(self._queue).fd
        return readings(self._work.spool, self._fd, ids, SMALL_BODY_BYTES)

    def take_read(
        self, ids: Sequence[MessageId], read: Sequence[Outcome], room: AnswerRoom
    ) -> list[Taken | Exception]:
        """Take several messages as `take_together` does, after the calls of `readings`."""
        if not any(map(CODE, read)):
            return self._take_opened(ids, read, room)
        lost = [*map(lost_in, read)]
        # Beside other servers that is usual.
        opened = [each is None for each in lost]
        taken = iter(self._take_opened([*compress(ids, opened)], [*compress(read, opened)], room))
        return [each or next(taken) for each in lost]

    def _take_opened(
        self, ids: Sequence[MessageId], read: Sequence[Outcome], room: AnswerRoom
    ) -> list[Taken | Exception]:
        """Take messages that were read: together if nothing is unusual, or else one by one."""
        usual = self.begin_all_usual(ids, read)
        if usual is None:
            return do_together(
                [self._take_read(*each, room) for each in zip(ids, read, strict=True)]
            )
        fitting = usual[: room.count([each.status[SIZE] for each in usual])]
        try:
            made = run(self._work.files, [*map(self.lease_calls, fitting)])
        except BaseException:
            close_usual(self._work, usual)
            raise
        close_usual(self._work, usual[len(fitting) :])
        return self.end_usual(fitting, made) + [None] * (len(usual) - len(fitting))

    def begin_all_usual(
        self, ids: Sequence[MessageId], read: Sequence[Outcome]
    ) -> list[Usual] | None:
        """Begin a lease of each message that was read; or return None if anything is unusual. If it
        fails, none of their files stays open, and all are back in the index."""
        visible_ns = self._visible_ns()
        usual: list[Usual] = []
        try:
            for message_id, outcome in zip(ids, read, strict=True):
                begun = begin_usual(self._work, self._queue, message_id, outcome, visible_ns)
                if begun is None:
                    return None
                usual.append(begun)
        except BaseException:
            failed = len(usual)  # Its file is closed.
            for results, code in (*read[:failed], *read[failed + 1 :]):
                if not code:
                    self._work.files.close(results[0])
            for message_id in ids:
                self._work.ready.restore(self._queue, message_id)
            raise
        return usual

    def end_usual(self, usual: Sequence[Usual], made: Sequence[Outcome]) -> list[Taken | Exception]:
        """Return for each message what `take` returns or raises, after the calls of
        `lease_calls`."""
        outcomes: list[Taken | Exception] = []
        for each, outcome in zip(usual, made, strict=True):
            if not outcome[1]:
                outcomes.append(each.received)
                continue
            try:
                outcomes.append(self._break_off(each, outcome))
            except OSError as error:
                outcomes.append(error)
        return outcomes

    def _visible_ns(self) -> int:
        work = self._work
        return round_up(work.clock_ns() + self._visibility_ns, work.granularity_ns)

    def _take_read(
        self, message_id: MessageId, outcome: Outcome, room: AnswerRoom
    ) -> FileWork[Taken]:
        """Take a message that was read together with others, one of which is unusual."""
        usual = begin_usual(self._work, self._queue, message_id, outcome, self._visible_ns())
        if usual is None:
            return (yield from self._take_unusual(message_id, outcome, room))
        if not room.takes(usual.status[SIZE]):
            self._work.files.close(usual.fd)
            return None
        return (yield from self._take_usual(usual))

    def lease_calls(self, usual: Usual) -> Chain:
        """Return the calls that make a lease and close the message."""
        received, seal, fd, _ = usual
        message_id = received.message_id
        target = file_name(self._queue, message_id)
        return (
            (SET_ATTRIBUTE, fd, SEAL_ATTRIBUTE, seal),
            (STAMP, fd, received.visible_ns),
            self._work.spool.rename_call(_QUEUES, self._fd, message_id, _DELAY, target),
            (CLOSE, fd),
        )

    def _take_usual(self, usual: Usual) -> FileWork[Taken]:
        try:
            made = yield FileCalls(self._work.files, self.lease_calls(usual))
        except BaseException:
            self._work.files.close(usual.fd)
            raise
        return usual.received if not made[1] else self._break_off(usual, made)

    def _break_off(self, usual: Usual, made: Outcome) -> Taken:
        """Take back a lease of which a call has failed. Raises OSError."""
        (done, code), received = made, usual.received
        if len(done) == _LEASE_CALLS:
            return received  # Only its file could not be closed.
        name, sealed = received.message_id, received.sealed
        with Held(self._work.files, name, usual.fd, Status._make(usual.status), sealed) as held:
            try:
                return break_off(self._work.spool, held, sealed if done else None, code)
            except OSError as error:
                return self._pass_over(name, error)

    def _take_unusual(
        self, message_id: MessageId, outcome: Outcome, room: AnswerRoom | None
    ) -> FileWork[Taken]:
        work, place = self._work, place_in(_QUEUES, self._queue, message_id)
        try:
            opened = opened_by(work.spool, _QUEUES, place.name, outcome)
            if isinstance(opened, Lost):
                if opened is Lost.FOREIGN:
                    work.report(f"{_QUEUES}/{place.name}", opened.value)
                return opened
            if room is not None and not room.takes(opened.held.status.st_size):
                opened.held.close()
                return None
            return (yield from take_held(work, place, opened, self._visibility_ns, begin_lease))
        except OSError as error:
            return self._pass_over(message_id, error)
        except StoreUnavailable:
            # The root has a format that this version does not know: a person may mend that.
            work.ready.restore(self._queue, message_id)
            raise

    def _pass_over(self, message_id: MessageId, error: OSError) -> Lost | None:
        """Report what is wrong with this message alone. Any other error is raised again, with the
        message back in the index; so is one that every message of the queue would meet."""
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            self._work.ready.restore(self._queue, message_id)
            raise error
        if error.errno in _DENIALS:
            self._pass_over_denied(message_id, error)
        place = f"{_QUEUES}/{queue_path(self._queue, message_id)}"
        self._work.report(place, str(error.strerror))
        return None

    def _pass_over_denied(self, message_id: MessageId, error: OSError) -> None:
        """Raise OSError, with the message back in the index, if others would be tried for long."""
        self._denied += 1
        folder = f"{_QUEUES}/{self._queue}"
        if not self._may_change_folder():
            why = f"the folder {folder} cannot be changed"
        elif self._denied > MOST_DENIED:
            why = f"over {MOST_DENIED} messages in {folder} are not for the user who runs mq"
        else:
            return
        self._work.ready.restore(self._queue, message_id)
        raise OSError(error.errno, f"{why}: {error.strerror}")

    def _may_change_folder(self) -> bool:
        return os.access(".", os.W_OK, dir_fd=self._fd, effective_ids=True)
