"""Take ready messages whose ids come from the index, each by two chains of file calls."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

from mq.config import SMALL_BODY_BYTES
from mq.disk.calls import CLOSE, CODE, SET_ATTRIBUTE, STAMP, Chain, Outcome, run
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.disk.status import INODE, MODE, OWNER, SIZE, Status
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.message.burial import burial_in
from mq.spool.message.held import FAULTS_OF_ONE_MESSAGE, NO_FD, Held, Lost, content_type_of
from mq.spool.message.opening import lost_in, opened_by, reading, readings
from mq.spool.message.seal import (
    MAX_RECEIVE_COUNT,
    SEAL_ATTRIBUTE,
    SHORT_BYTES,
    Seal,
    pack_short,
    round_up,
)
from mq.spool.message.trailer import split
from mq.store.answer_memory import AnswerRoom
from mq.store.context import Workspace
from mq.store.receiving.lease import begin_lease, begin_long_lease, break_off, place_in, take_held
from mq.store.receiving.received_message import Received

_QUEUES, _DELAY = Folder.QUEUES, Folder.DELAY

_of = tuple.__new__
"""Makes a named tuple of a tuple with all of its fields, in a third of the time that its class
takes."""

Taken = Received | Lost | None
"""What became of a message that was to be taken. None: there was no room for its body, or something
is wrong with it alone, which was reported."""


class _Usual(NamedTuple):
    """A message with nothing unusual about it, under its lock: as it will be received, its packed
    seal then, and what was found at its descriptor."""

    received: Received
    seal: bytes
    fd: int
    status: tuple[Any, ...]


class Taker:
    """Takes ready messages of one queue for one receiver, each hidden for `visibility_ns`.

    A message is locked, read, stamped and renamed. A failure leaves it as it was.
    """

    __slots__ = ("_fd", "_queue", "_visibility_ns", "_work")

    def __init__(self, work: Workspace, queue: QueueName, visibility_ns: int) -> None:
        self._work = work
        self._queue = queue
        self._visibility_ns = visibility_ns
        self._fd = NO_FD

    def take(self, message_id: MessageId) -> FileWork[Taken]:
        """Take a message. Raises OSError."""
        work = self._work
        try:
            self._fd = work.spool.queues.open(self._queue).fd
        except (FileNotFoundError, NotADirectoryError):
            return Lost.GONE
        except OSError as error:
            return self._pass_over(message_id, error)
        chain = reading(work.spool, self._fd, message_id, SMALL_BODY_BYTES)
        outcome = yield FileCalls(work.files, chain)
        usual = self._begin_usual(message_id, outcome, self._visible_ns())
        if usual is None:
            return (yield from self._take_unusual(message_id, outcome, None))
        return (yield from self._take_usual(usual))

    def take_together(self, ids: Sequence[MessageId], room: AnswerRoom) -> list[Taken | Exception]:
        """Take several messages as far as the answer has room, with the file calls of all in one
        go. Returns for each what `take` returns or raises."""
        work = self._work
        try:
            self._fd = work.spool.queues.open(self._queue).fd
        except OSError:
            return do_together([self.take(each) for each in ids])
        fd, spool = self._fd, work.spool
        read = run(work.files, readings(spool, fd, ids, SMALL_BODY_BYTES))
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
        usual = self._begin_all_usual(ids, read)
        if usual is None:
            return do_together(
                [self._take_read(*each, room) for each in zip(ids, read, strict=True)]
            )
        return self._take_all_usual(usual, room)

    def _begin_all_usual(
        self, ids: Sequence[MessageId], read: Sequence[Outcome]
    ) -> list[_Usual] | None:
        """Begin a lease of each; or return None if anything is unusual. If it fails, none of their
        files stays open, and all are back in the index."""
        visible_ns = self._visible_ns()
        usual: list[_Usual] = []
        try:
            for message_id, outcome in zip(ids, read, strict=True):
                begun = self._begin_usual(message_id, outcome, visible_ns)
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

    def _visible_ns(self) -> int:
        work = self._work
        return round_up(work.clock_ns() + self._visibility_ns, work.granularity_ns)

    def _take_read(
        self, message_id: MessageId, outcome: Outcome, room: AnswerRoom
    ) -> FileWork[Taken]:
        """Take a message that was read together with others, one of which is unusual."""
        usual = self._begin_usual(message_id, outcome, self._visible_ns())
        if usual is None:
            return (yield from self._take_unusual(message_id, outcome, room))
        if not room.takes(usual.status[SIZE]):
            self._work.files.close(usual.fd)
            return None
        return (yield from self._take_usual(usual))

    def _begin_usual(
        self, message_id: MessageId, outcome: Outcome, visible_ns: int
    ) -> _Usual | None:
        """Begin a lease; or return None if anything is unusual: `take_held` finds out what. For a
        small message that is whole and has a seal both do the same, and this takes a third of the
        time. A test compares them. If it fails, the file is closed, and the message back in the
        index."""
        results, code = outcome
        work = self._work
        if code or len(results) != _USUAL_RESULTS or work.files.is_of_network:
            return None
        fd, _, status, named, attribute, data, kind, burial = results
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
        queue, lease, first_ns = self._queue, work.leases.next(), 0
        count = sealed.receive_count
        count += count < MAX_RECEIVE_COUNT
        if work.spool.has_long_seals or (len(attribute) != SHORT_BYTES and sealed.is_long):
            fresh = self._begin_long(message_id, fd, sealed, lease)
            first_ns, seal = fresh.first_received_ns, fresh.pack()
        else:
            seal = pack_short(sealed.length, sealed.crc32, sealed.published_ns, count, lease)
        body, properties = content
        about = (
            queue,
            message_id,
            sealed.length,
            sealed,
            None if kind is None else content_type_of(kind),
            lease,
            count,
            sealed.published_ns,
            visible_ns,
            body,
            -1,
            None,
            False,
            properties,
            first_ns,
            None if burial is None else burial_in(burial, queue),
        )
        return _of(_Usual, (_of(Received, about), seal, fd, status))

    def _begin_long(self, message_id: MessageId, fd: int, sealed: Seal, lease: int) -> Seal:
        try:
            return begin_long_lease(self._work, sealed, lease)
        except BaseException:
            self._work.files.close(fd)
            self._work.ready.restore(self._queue, message_id)
            raise

    def _calls(self, usual: _Usual) -> Chain:
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

    def _take_usual(self, usual: _Usual) -> FileWork[Taken]:
        try:
            made = yield FileCalls(self._work.files, self._calls(usual))
        except BaseException:
            self._work.files.close(usual.fd)
            raise
        return usual.received if not made[1] else self._break_off(usual, made)

    def _take_all_usual(self, usual: Sequence[_Usual], room: AnswerRoom) -> list[Taken | Exception]:
        outcomes: list[Taken | Exception] = []
        files = self._work.files
        fitting = usual[: room.count([each.status[SIZE] for each in usual])]
        try:
            made = run(files, [self._calls(each) for each in fitting])
        except BaseException:
            for each in usual:
                files.close(each.fd)
            raise
        for each, outcome in zip(fitting, made, strict=True):
            if not outcome[1]:
                outcomes.append(each.received)
                continue
            try:
                outcomes.append(self._break_off(each, outcome))
            except OSError as error:
                outcomes.append(error)
        for each in usual[len(fitting) :]:
            files.close(each.fd)
            outcomes.append(None)
        return outcomes

    def _break_off(self, usual: _Usual, made: Outcome) -> Taken:
        """Take back a lease of which a call has failed. Raises OSError."""
        (done, code), received = made, usual.received
        if len(done) == _LEASE_CALLS:
            return received  # Only its file could not be closed.
        name, sealed = received.message_id, received.sealed
        with Held(self._work.files, name, usual.fd, Status._make(usual.status), sealed) as held:
            try:
                return break_off(held, sealed if done else None, code)
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

    def _pass_over(self, message_id: MessageId, error: OSError) -> Lost | None:
        """Report what is wrong with this message alone. Any other error is raised again, with the
        message back in the index."""
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            self._work.ready.restore(self._queue, message_id)
            raise error
        place = f"{_QUEUES}/{queue_path(self._queue, message_id)}"
        self._work.report(place, str(error.strerror))
        return None


_USUAL_RESULTS = 8
"""How many calls `reading` makes where there are seals."""

_LEASE_CALLS = 3
"""How many of `Taker._calls` make the lease."""
