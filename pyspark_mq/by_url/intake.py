"""The way in: fetch over HTTP, stage durably, remove there; only then is a message Spark's.

    STAGING/in/delay/QUEUE:ID    fetched, and perhaps still the server's; its seal has the lease
    STAGING/in/queues/QUEUE/ID   removed at the server: Spark's, for the next claim

A message is removed at the server under the lease it was fetched with. If another receiver has it
by then, the answer is 412 and it leaves the staging; so exactly one of the two has it. What a crash
leaves in `delay` is asked about again before anything else is fetched, unless a power cut has torn
it: that was not removed, and is dropped.

404 says that it was removed and reaped: by this source, before the crash. It is kept, because
nothing may be lost. It comes twice only if its lease ran out before the removal and another
consumer finished it, or if it was moved to another queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mq.client import Client, ClientError, LeaseLost, Message, MessageNotFound, QueueNotFound
from mq.config import MAX_ANSWER_MESSAGES
from mq.disk.calls import CHAINS_AT_ONCE, CLOSE, OPEN_UNNAMED, WRITE, Chain, check, run
from mq.disk.file_work import FileWork, do_together
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName, file_name, parse_message_id, queue_path
from mq.spool.message.held import Lost
from mq.spool.message.opening import move_held, open_held
from mq.spool.message.seal import Seal, sealing
from mq.spool.message.trailer import pack_trailer, sealed
from mq.times import in_us
from pyspark_mq.by_url.allowance import Allowance
from pyspark_mq.by_url.fetched import find_fetched, sync_fetched
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import make_staged_queue, open_staging, reap_staged
from pyspark_mq.options.addresses import Addresses

IDLE_WAIT_SECONDS = 0.5
"""How long a fetch that has found nothing waits for a message of its last queue. Spark asks again
every 10 ms."""

LANES = 3
"""How many threads bring the messages of a long queue."""


class Intake:
    """Brings messages of some queues into a staging. One driver at a time needs it; if an older one
    still runs, each message is brought by only one of them."""

    def __init__(
        self, root: Path, addresses: Addresses, queues: Iterable[str], files: Files | None = None
    ) -> None:
        """Open the staging at `root`. This sends nothing."""
        self._spool = open_staging(root, files)
        self._lease_seconds = addresses.lease_seconds
        self._servers = ServerChoice(addresses)
        self._queues = [QueueName(queue) for queue in queues]
        self._left: dict[QueueName, int] | None = None

    def close(self) -> None:
        self._servers.close()
        self._spool.close()

    def require_queues(self) -> None:
        """Raise QueueNotFound if a queue is missing, and whatever else keeps the servers from
        answering."""
        for queue in self._queues:
            self._count(queue)
            make_staged_queue(self._spool, queue)

    def freeze(self) -> None:
        """Fetch as many messages as are ready now, and no more."""
        self._left = {queue: self._count(queue) for queue in self._queues}

    def waiting(self) -> int:
        """Return how many messages are ready at the servers."""
        return sum(self._count(queue) for queue in self._queues)

    def reap(self) -> None:
        """Unlink messages that Spark is done with."""
        reap_staged(self._spool)

    def _count(self, queue: QueueName) -> int:
        return self._servers.counts(queue).ready

    def fetch(self, max_messages: int | None, max_bytes: int | None) -> int:
        """Bring up to this many messages, or about this many bytes. Returns how many messages came.

        On return they are durable. Raises ClientError; messages that were fetched are then in the
        staging, or return at the server.
        """
        self.settle()
        allowance = Allowance(max_messages, max_bytes)
        for queue in self._queues:
            allowance.begin_queue(None if self._left is None else self._left[queue])
            self._bring(queue, allowance)
            if self._left is not None:
                self._left[queue] = allowance.end_queue() or 0
        # The next fetch begins with another queue: this one may always have more than one brings.
        self._queues = self._queues[1:] + self._queues[:1]
        return allowance.messages

    def _bring(self, queue: QueueName, allowance: Allowance) -> None:
        """Bring what is ready of one queue. What is published meanwhile is for the next fetch:
        beside a busy producer this one would end only at its limit. From the second request on
        several threads do it: while one waits for a server, the others write files."""
        is_last = queue == self._queues[-1]
        is_idle = is_last and not allowance.messages and self._left is None
        came = self._bring_some(queue, allowance, IDLE_WAIT_SECONDS if is_idle else 0.0)
        if not came:
            return
        if self._left is None:
            allowance.begin_queue(self._count(queue))
        if came < MAX_ANSWER_MESSAGES or allowance.is_by_bytes:
            return self._bring_rest(queue, allowance)
        with ThreadPoolExecutor(LANES, "mq-intake") as threads:
            bringing = [threads.submit(self._bring_rest, queue, allowance) for _ in range(LANES)]
        for each in bringing:
            each.result()

    def _bring_rest(self, queue: QueueName, allowance: Allowance) -> None:
        while self._bring_some(queue, allowance, 0.0):
            pass

    def _bring_some(self, queue: QueueName, allowance: Allowance, wait: float) -> int:
        """Bring what one request fetches. Returns how many messages that was."""
        most = allowance.take()
        if not most:
            return 0

        def receive(mq: Client) -> list[Message]:
            return mq.queue(queue).receive_many(most, wait=wait, visibility=self._lease_seconds)

        messages = self._servers.ask(receive)
        allowance.came(most, len(messages), sum(len(each.body) for each in messages))
        if messages:
            allowance.taken(self._remove(queue, self._stage_durably(queue, messages)))
        return len(messages)

    def _stage_durably(self, queue: QueueName, messages: list[Message]) -> dict[str, str]:
        """Stage messages as `stage` does, and sync them, even if one could not be written. If the
        sync fails, this raises OSError, and none of them stays: the next one would succeed without
        what could not be written."""
        files = self._spool.files
        # An error is reported once to a descriptor, and other threads sync too.
        fd = files.open_folder(self._spool.fd(Folder.DELAY), ".")
        try:
            return self.stage(queue, messages)
        finally:
            try:
                files.sync_file_system(fd)
            except OSError:
                fetched = {each.id: each.lease for each in messages}
                self.decide(queue, fetched, fetched.keys())
                raise
            finally:
                files.close(fd)

    def stage(self, queue: QueueName, messages: Iterable[Message]) -> dict[str, str]:
        """Write messages into `delay`, not durably by itself. Returns the lease of each. One is
        left out if another message with its id still waits for its place: it returns at the server,
        and finds the place free."""
        leases = {}
        coming = iter(messages)
        while some := list(islice(coming, CHAINS_AT_ONCE)):
            outcomes = run(self._spool.files, [self._writing(queue, each) for each in some])
            for message, outcome in zip(some, outcomes, strict=True):
                with suppress(FileExistsError):
                    check(outcome)
                    leases[message.id] = message.lease
        return leases

    def _writing(self, queue: QueueName, message: Message) -> Chain:
        """Return the file calls that put a message into `delay`."""
        spool, name = self._spool, file_name(queue, parse_message_id(message.id))
        trailer = pack_trailer(message.properties)
        if trailer:
            spool.use_long_seals()
        return (
            (OPEN_UNNAMED, spool.fd(Folder.DELAY), spool.file_mode),
            (WRITE, ~0, message.body + trailer),
            *sealing(~0, _seal_of(message, trailer).pack(), message.content_type, None),
            spool.link_call(~0, Folder.DELAY, name),
            (CLOSE, ~0),
        )

    def settle(self) -> int:
        """Decide about the messages that an earlier call, or another driver, has left in `delay`.
        Returns how many became Spark's. Raises ClientError; the rest is then for the next call.
        Raises OSError if they cannot be synced: what the server still has comes from there."""
        if not (fetched := find_fetched(self._spool)):
            return 0
        try:
            sync_fetched(self._spool, fetched)
        except OSError:
            # The next sync would succeed without what could not be written.
            for (queue, _), leases in fetched.items():
                self._take_durable(queue, leases)
            raise
        return sum(
            self._remove(queue, leases) if is_whole else self._take_durable(queue, leases)
            for (queue, is_whole), leases in fetched.items()
        )

    def _take_durable(self, queue: QueueName, leases: dict[str, str]) -> int:
        """Take those of some messages that the server has no more: they were durable here once,
        whatever became of them later. What never was, the server has. Returns how many were taken.
        Raises ClientError."""
        make_staged_queue(self._spool, queue)
        there = {each for each in leases if self._is_there(queue, each)}
        return self.decide(queue, leases, there)

    def _is_there(self, queue: QueueName, message_id: str) -> bool:
        try:
            self._servers.ask(lambda mq: mq.queue(queue).peek_at(message_id))
        except (MessageNotFound, QueueNotFound):
            return False
        return True

    def _remove(self, queue: QueueName, leases: dict[str, str]) -> int:
        """Remove messages at the servers that are durable here, and take those that were removed.
        Returns how many that were. Raises ClientError if one could not be removed; then none is
        decided about."""
        make_staged_queue(self._spool, queue)

        def remove(mq: Client) -> dict[str, ClientError]:
            failed = mq.queue(queue).ack_many(leases)
            for error in failed.values():
                if not isinstance(error, LeaseLost | MessageNotFound):
                    # The server still has the message, and may have another process at it.
                    raise error
            return failed

        try:
            failed = self._servers.ask(remove)
        except QueueNotFound:
            # The queue was deleted with all its messages, except those already delivered: these are
            # Spark's.
            failed = {}
        lost = {each for each, error in failed.items() if isinstance(error, LeaseLost)}
        taken = self.decide(queue, leases, lost)
        if lost:
            self.reap()
        return taken

    def decide(self, queue: QueueName, leases: dict[str, str], lost: Set[str]) -> int:
        """Take the messages that are Spark's now, and let those go that are lost. Returns how many
        were taken. Each is decided about under its lock: a driver that was stopped since it asked
        finds that a newer one has decided, and may have fetched the id again."""
        asked = list(leases.items())
        taken = 0
        for at in range(0, len(asked), CHAINS_AT_ONCE):
            some = asked[at : at + CHAINS_AT_ONCE]
            for outcome in do_together([self._deciding(queue, *each, lost) for each in some]):
                if isinstance(outcome, Exception):
                    raise outcome
                taken += outcome
        return taken

    def _deciding(self, queue: QueueName, name: str, lease: str, lost: Set[str]) -> FileWork[bool]:
        """Decide about one message. Returns whether it was taken."""
        message_id = parse_message_id(name)
        staged = file_name(queue, message_id)
        held = yield from open_held(self._spool, Folder.DELAY, staged)
        if isinstance(held, Lost):
            return False
        with held:
            if f"{held.lease:016x}" != lease:
                return False
            if message_id in lost:
                self._spool.move_aside(Folder.DELAY, staged, Folder.REMOVE, staged)
                return False
            place = queue_path(queue, message_id)
            try:
                return (yield from move_held(self._spool, Folder.DELAY, held, Folder.QUEUES, place))
            except FileExistsError:
                # A producer has used the id again, and the first message is not claimed yet.
                return False


def _seal_of(message: Message, trailer: bytes) -> Seal:
    published_ns = 1000 * in_us(message.published_at)
    count, lease = message.receive_count or 0, int(message.lease, 16)
    return sealed(message.body, trailer, max(published_ns, 0), count, lease)
