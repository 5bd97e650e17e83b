"""Find a message by its id, in every place where it can be, even if it moves during the search."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from mq.disk.calls import ABSENT, run
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.folders import Spool
from mq.spool.queue.purged import PURGED_SUFFIX, places_in
from mq.spool.sets import OPEN_SUFFIX, parse_batch_name
from mq.spool.spark.finished import CLAIMS, DoneBatches, folders_in

_Stage = list[str] | Callable[[MessageId], Iterable[str]]
"""Some of the places: the beginning of each path, or a function from an id to the paths."""

ON_ITS_WAY = 3
"""How often `queues` and `delay` are looked at in turn. A receive and a redelivery may pass between
two looks, again and again."""


class Finder:
    """Looks for messages of one queue, among its dead letters too.

    The sealed batches in `new` are listed when the finder is made. Its maker must hold the locks of
    the ids that it will look for: from then on no message with these ids is published, so one that
    is not in `new` yet does not get there. All other places are looked at for each id.
    """

    def __init__(
        self, spool: Spool, done: DoneBatches, queue: QueueName, dead_letters: Iterable[QueueName]
    ) -> None:
        """`dead_letters` are the queues that its dead letters may be in. Raises OSError."""
        self._spool, self._root, self._done = spool, f"{spool.root}", done
        self._flat = f"{queue}:"
        ready, delayed = f"{Folder.QUEUES}/{queue}/", f"{Folder.DELAY}/{queue}:"
        self._first = [
            f"{Folder.NEW}/{queue}:",
            *(f"{Folder.NEW}/{batch}/{queue}:" for batch in sealed_batches(spool, queue)),
            *(ready, delayed) * ON_ITS_WAY,
        ]
        self._dead_letters = list(dead_letters)
        # The last places are those of a claim that was given back and of a dead letter that got
        # another try, then `remove`.
        self._last = [ready, delayed, f"{Folder.REMOVE}/{queue}:"]
        self._queue = queue

    def find(self, message_id: MessageId) -> Iterator[str]:
        """Yield the paths, from the root on and in the order of a message's way, at which there is
        a message of that id. Each place is looked at when the next path is asked for. Raises
        OSError."""
        for stage in self._stages():
            if callable(stage):
                yield from self._existing(stage(message_id))
            else:
                yield from self._existing(head + message_id for head in stage)

    def missing(self, message_ids: Iterable[MessageId]) -> set[MessageId]:
        """Return those ids for which `find` finds nothing, by the same looks in the same order. The
        looks are made for all ids together, in a third of the time. Raises OSError."""
        left = list(message_ids)
        for stage in self._stages():
            if callable(stage):
                left = [each for each in left if not any(self._existing(stage(each)))]
            else:
                left = self._absent(stage, left)
        return set(left)

    def _absent(self, heads: Iterable[str], message_ids: Sequence[MessageId]) -> list[MessageId]:
        """Return those ids that are at none of the places."""
        places = []
        for head in heads:
            folder, _, inside = head.partition("/")
            places.append((self._spool.fd(Folder(folder)), inside))
        chains = [
            tuple([(ABSENT, fd, inside + each) for fd, inside in places]) for each in message_ids
        ]
        outcomes = run(self._spool.files, chains)
        return [each for each, (_, code) in zip(message_ids, outcomes, strict=True) if not code]

    def _existing(self, paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            # Links do not count.
            if self._spool.files.exists(None, f"{self._root}/{path}"):
                yield path

    def _stages(self) -> Iterator[_Stage]:
        """Yield the stages of a message's way. Each holds the places to which the message can have
        come from the stage before, which is over when the next one is asked for."""
        yield self._first
        yield from self._taken(self._flat)
        for dead in self._dead_letters:
            ready, flat = f"{Folder.QUEUES}/{dead}/", f"{dead}:"
            if self._spool.files.exists(None, f"{self._root}/{ready}"):
                yield [ready, f"{Folder.DELAY}/{flat}", ready]
            yield from self._taken(flat)
            yield [ready, f"{Folder.REMOVE}/{flat}"]
            yield self._purged(dead)
        yield self._last
        yield self._purged(self._queue)

    def _purged(self, queue: QueueName) -> list[str]:
        parts = folders_in(self._root, f"{Folder.REMOVE}/{queue}{PURGED_SUFFIX}")
        return list(places_in(parts, queue))

    def _taken(self, flat: str) -> Iterator[_Stage]:
        """Yield the places where Spark queries have a message, or had it."""
        groups = folders_in(self._root, CLAIMS)
        if groups:
            yield lambda message_id: _claimed(self._root, groups, flat + message_id)
        yield lambda message_id: self._done.paths(flat + message_id, groups)


def is_taken(
    files: Files, queues_fd: int, queue: QueueName, message_id: MessageId, inode: int
) -> bool:
    """Return whether a queue has a message of that id which is not the file `inode`: on its way,
    ready, hidden, or claimed by Spark. For a process that has only the folder `queues` of the root
    open. The caller holds the lock of the id. Raises OSError."""
    root, flat = f"/proc/self/fd/{queues_fd}/..", file_name(queue, message_id)
    ways = (f"{Folder.QUEUES}/{queue_path(queue, message_id)}", f"{Folder.DELAY}/{flat}")

    def places() -> Iterator[str]:
        yield f"{Folder.NEW}/{flat}"
        for folder in folders_in(root, Folder.NEW):
            if _is_sealed_batch(folder.rpartition("/")[2], queue):
                yield f"{folder}/{flat}"
        yield from ways * ON_ITS_WAY
        yield from _claimed(root, folders_in(root, CLAIMS), flat)
        yield from ways  # A claim may have been given back meanwhile.

    return any(_is_another(files, queues_fd, f"../{place}", inode) for place in places())


def _is_another(files: Files, folder_fd: int, name: str, inode: int) -> bool:
    try:
        return files.exists(folder_fd, name) and files.status_of(folder_fd, name).st_ino != inode
    except FileNotFoundError:
        return False


def _claimed(root: str, groups: Iterable[str], flat: str) -> Iterator[str]:
    """Yield the places in claimed sets: `GROUP/CLAIM/QUEUE:ID`, or a level deeper."""
    for group in groups:
        for claim in folders_in(root, group):
            yield f"{claim}/{flat}"
            for part in folders_in(root, claim):
                yield f"{part}/{flat}"


def sealed_batches(spool: Spool, queue: QueueName) -> list[str]:
    """Return the sealed batches of a queue. Usually there are none, and the number of links of
    `new` says so on file systems that count folders there."""
    if os.fstat(spool.fd(Folder.NEW)).st_nlink == 2:
        return []
    return [name for name in spool.names(Folder.NEW) if _is_sealed_batch(name, queue)]


def _is_sealed_batch(name: str, queue: QueueName) -> bool:
    batch = None if name.endswith(OPEN_SUFFIX) else parse_batch_name(name)
    return batch is not None and batch.queue == queue
