"""Claim messages: rename each one out of its queue into an open batch, then seal the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from enum import Enum

from mq.config import MAX_SPARK_MESSAGE_BYTES, MIB, PURGE_LOCK_SECONDS
from mq.disk.calls import CHAINS_AT_ONCE
from mq.disk.file_work import FileWork, do_together
from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.held import Lost, set_aside
from mq.spool.message.opening import move_held, open_held
from mq.spool.sets import members, seal_set
from mq.spool.spool import Spool


class Taken(Enum):
    """The result of taking a message."""

    YES = "it is in the batch"
    LOST = "another process was faster or holds it, it was damaged and set aside, or must not move"
    TOO_LONG = "Spark cannot hold it, so it stays in its queue"
    DECLINED = "it does not fit"


_TOO_LONG = (
    f"it has more than {MAX_SPARK_MESSAGE_BYTES // MIB} MiB, which Spark cannot hold: receive it "
    "over HTTP, or move it to another queue"
)


class Claim:
    """An open batch, at `path` below `spark`. Every name is given from there. A driver that was
    fenced off takes no more messages, because the folder has another name by then."""

    def __init__(
        self, spool: Spool, path: str, sealed: str, fenced: Callable[[], ClaimError]
    ) -> None:
        self._spool = spool
        self._path = path
        self._sealed = sealed
        self._fenced = fenced

    def take(
        self, queue: QueueName, message_id: MessageId, part_for: Callable[[int], int | None]
    ) -> Taken:
        """Take one message, as `take_many` does."""
        return self.take_many([(queue, message_id)], part_for)[0]

    def take_many(
        self,
        messages: Sequence[tuple[QueueName, MessageId]],
        part_for: Callable[[int], int | None],
    ) -> list[Taken]:
        """Take ready messages, each into the part that `part_for` returns for its length in bytes;
        if that is None the message is declined. Returns what became of each. Raises ClaimError if
        this driver is fenced off, and OSError; some of the messages may be in the batch then."""
        taken: list[Taken] = []
        for at in range(0, len(messages), CHAINS_AT_ONCE):
            taken += self._take_some(messages[at : at + CHAINS_AT_ONCE], part_for)
        return taken

    def _take_some(
        self,
        messages: Sequence[tuple[QueueName, MessageId]],
        part_for: Callable[[int], int | None],
    ) -> list[Taken]:
        """Take this many messages in one go: all of them are open together."""
        queues = self._spool.queues
        shared: set[QueueName] = set()
        with ExitStack() as stack:
            for queue in dict.fromkeys(queue for queue, _ in messages):
                with suppress(FileNotFoundError, NotADirectoryError, BlockingIOError):
                    stack.enter_context(queues.shared(queue, PURGE_LOCK_SECONDS))
                    shared.add(queue)
            outcomes = do_together(
                [self._taking(*each, part_for if each[0] in shared else None) for each in messages]
            )
        taken: list[Taken] = []
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            taken.append(outcome)
        return taken

    def _taking(
        self,
        queue: QueueName,
        message_id: MessageId,
        part_for: Callable[[int], int | None] | None,
    ) -> FileWork[Taken]:
        """Take one message. `part_for` is None if its queue is gone or another process has it to
        itself."""
        if part_for is None:
            return Taken.LOST
        try:
            return (yield from self._taking_ready(queue, message_id, part_for))
        except OSError as error:
            if error.errno not in FAULTS_OF_ONE_MESSAGE:
                raise
            # It costs no other message anything. Servers pass it over too, and report it.
            return Taken.LOST

    def _taking_ready(
        self, queue: QueueName, message_id: MessageId, part_for: Callable[[int], int | None]
    ) -> FileWork[Taken]:
        name = queue_path(queue, message_id)
        held = yield from open_held(self._spool, Folder.QUEUES, name)
        if isinstance(held, Lost):
            return Taken.LOST
        with held:
            if not held.is_as_long_as_sealed():
                set_aside(self._spool, Folder.QUEUES, held)
                return Taken.LOST
            if held.status.st_size > MAX_SPARK_MESSAGE_BYTES:
                # A row of Spark has less than 2 GiB, and what writes it, as Snappy, takes less.
                self._spool.report_left(f"{Folder.QUEUES}/{name}", _TOO_LONG)
                return Taken.TOO_LONG
            part = part_for(held.status.st_size)
            if part is None:
                return Taken.DECLINED
            member = f"{self._path}/{part}/{file_name(queue, message_id)}"
            if (yield from move_held(self._spool, Folder.QUEUES, held, Folder.SPARK, member)):
                return Taken.YES
        if not self._spool.exists(Folder.SPARK, self._path):
            raise self._fenced()
        return Taken.LOST

    def count(self) -> int:
        """Return how many messages it holds. Raises ClaimError if this driver is fenced off."""
        try:
            return len(members(self._spool, Folder.SPARK, self._path))
        except FileNotFoundError:
            raise self._fenced() from None

    def seal(self) -> bool:
        """Make it batch N, durably. Returns False if another driver has sealed that batch already.

        Raises ClaimError if this driver is fenced off.
        """
        try:
            seal_set(self._spool, Folder.SPARK, self._path, self._sealed)
        except FileExistsError:
            return False
        except FileNotFoundError:
            raise self._fenced() from None
        self._spool.files.sync_file_system(self._spool.fd(Folder.SPARK))
        return True
