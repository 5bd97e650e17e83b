"""Staging: the set of messages that one attempt of a Spark task writes. It counts only if its job
commits it.

    spark/stage/JOB/BATCH/ATTEMPT.open/QUEUE:ID   while it is filled
    spark/stage/JOB/BATCH/ATTEMPT/QUEUE:ID        sealed, and durable
    spark/txn/JOB/                                is made too: on a full disk nobody could make it,
                                                  and who gives attempts up needs its lock
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mq.config import SECOND_NS
from mq.disk.calls import CLOSE, OPEN_UNNAMED, WRITE, Chain, check, run
from mq.errors import ClaimError, InvalidRequest, QueueNotFound
from mq.ids import ServerIds
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.properties import Properties
from mq.spool.file_system import FileSystem, measure_file_system
from mq.spool.message.held import Lost
from mq.spool.message.seal import round_up, sealing
from mq.spool.message.trailer import pack_trailer, sealed
from mq.spool.queue.queue_birth import queue_made_ns
from mq.spool.queue.queues import has_queue
from mq.spool.sets import OPEN_SUFFIX, make_set, seal_set
from mq.spool.spark.jobs import STAGE, TXN, Job

_TRIES = 10


@dataclass(frozen=True, slots=True)
class StagedMessage:
    """A message to write. Without an id it gets a new one. `delay_seconds` is how long it is hidden
    at first."""

    queue: QueueName
    body: bytes
    message_id: MessageId | None = None
    content_type: str | None = None
    delay_seconds: float = 0.0
    properties: Properties = field(default_factory=dict)


class Attempt:
    """An open set of one attempt of a task. Each attempt has a set of its own, even of the same
    task."""

    def __init__(self, job: Job, batch: int, name: str) -> None:
        self._job = job
        self._spool = job.spool
        self._system: FileSystem = measure_file_system(job.spool)
        self._ids = ServerIds(time.time_ns)
        self._queues: set[QueueName] = set()
        self._sealed = f"{job.stage}/{batch}/{name}"
        self._path = self._sealed + OPEN_SUFFIX
        self._lock = self._make(STAGE, job.stage, f"{job.stage}/{batch}", TXN, job.txn)

    def _make(self, *before: str) -> int:
        """Make the open set, and the folders that must be there. A process that clears an earlier
        batch of the job away may remove them while they are empty: then they are made again."""
        for left in reversed(range(_TRIES)):
            try:
                self._spool.make_folders(Folder.SPARK, *before)
                lock = make_set(self._spool, Folder.SPARK, self._path)
            except FileNotFoundError:
                if not left:
                    raise
            else:
                break
        if isinstance(lock, Lost):
            # A commit of a later batch gives up whatever earlier ones have, however young it is.
            raise self._given_up()
        return lock

    def add(self, drafts: Sequence[StagedMessage]) -> None:
        """Write some messages, with their file calls made in one go. Raises QueueNotFound,
        InvalidRequest for an id that this attempt has used, PropertiesUnsupported, ClaimError if
        the batch was given up, and OSError."""
        positions = []
        chains = []
        for draft in drafts:
            self._require_queue(draft.queue)
            positions.append(self._ids.next_position(draft.message_id))
            chains.append(self._writing(draft, *positions[-1]))
        outcomes = run(self._spool.files, chains)
        for draft, (message_id, _), outcome in zip(drafts, positions, outcomes, strict=True):
            try:
                check(outcome)
            except FileNotFoundError:
                raise self._given_up() from None
            except FileExistsError:
                raise InvalidRequest(
                    f"two rows for queue {draft.queue} have the id {message_id}; each needs its own"
                ) from None

    def _writing(self, draft: StagedMessage, message_id: MessageId, published_ns: int) -> Chain:
        """Return the file calls that put a message into the set."""
        trailer = pack_trailer(draft.properties)
        if trailer:
            self._spool.use_long_seals()
        seal, due_ns = None, None
        if self._spool.has_seals:
            seal = sealed(draft.body, trailer, published_ns).pack()
        if draft.delay_seconds > 0:
            due_ns = time.time_ns() + int(draft.delay_seconds * SECOND_NS)
            due_ns = round_up(due_ns, self._system.stamp_granularity_ns)
        spool, name = self._spool, file_name(draft.queue, message_id)
        return (
            (OPEN_UNNAMED, spool.fd(Folder.SPARK), spool.file_mode),
            (WRITE, ~0, draft.body + trailer),
            *sealing(~0, seal, draft.content_type, due_ns),
            spool.link_call(~0, Folder.SPARK, f"{self._path}/{name}"),
            (CLOSE, ~0),
        )

    def _given_up(self) -> ClaimError:
        return ClaimError(
            f"{self._spool.root}/spark/{self._path} was given up: another driver has committed "
            "this batch meanwhile, or it was left unused for a day"
        )

    def _require_queue(self, queue: QueueName) -> None:
        if queue in self._queues:
            return
        if not has_queue(self._spool.files, self._spool.fd(Folder.QUEUES), queue):
            raise QueueNotFound(
                f"there is no queue {queue} in {self._spool.root}; make it with PUT /{queue} or "
                f"mqctl create {queue}"
            )
        made_ns = queue_made_ns(self._spool, queue)
        if made_ns is not None:
            # What is older than its queue would be removed as that of an earlier one of the name.
            self._ids.start_after(made_ns)
        self._queues.add(queue)

    def seal(self) -> None:
        """Make it a set that can win, all of it durable. Raises ClaimError, OSError."""
        try:
            seal_set(self._spool, Folder.SPARK, self._path, self._sealed)
        except FileNotFoundError:
            raise self._given_up() from None
        # One sync for data and seal is enough: a sealed set counts only with the transaction, which
        # comes later.
        self._spool.files.sync_file_system(self._spool.fd(Folder.SPARK))
        self._spool.files.close(self._lock)

    def give_up(self) -> None:
        self._job.hand_over(self._path)
        self._spool.files.close(self._lock)
