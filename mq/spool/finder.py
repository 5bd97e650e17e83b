"""Find a message by its id, in every place where it can be, even if it moves during the search."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from mq.disk.calls import ABSENT, run
from mq.disk.files import HIDDEN, Files
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, dead_letter_queue, file_name, queue_path
from mq.spool.batch_names import is_handover, parse_batch_name
from mq.spool.disk_errors import NO_MESSAGE
from mq.spool.handovers import is_published
from mq.spool.message.burial import DEAD_ATTRIBUTE, burial_in
from mq.spool.message.in_use import try_locks
from mq.spool.queue.listing import ON_ITS_WAY
from mq.spool.queue.purged import PURGED_SUFFIX, places_in
from mq.spool.sets import OPEN_SUFFIX
from mq.spool.spark.finished import GROUPS, DoneBatches, folders_in
from mq.spool.spool import Spool


class _Stage(NamedTuple):
    """Some of the places: the beginning of each path, or a function from an id to the paths. `dead`
    is the queue whose places they are, if that takes the dead letters of the queue."""

    heads: list[str] | Callable[[MessageId], Iterable[str]]
    dead: QueueName | None = None


class Finder:
    """Looks for messages of one queue, among its dead letters too.

    The batches in `new` are listed when the finder is made. Its maker must hold the locks of the
    ids that it will look for: from then on no message with these ids is published or handed over,
    so one that is not in `new` yet does not get there. All other places are looked at for each id.
    """

    def __init__(
        self,
        spool: Spool,
        done: DoneBatches,
        queue: QueueName,
        dead_letters: Iterable[QueueName],
        strange: Container[str] = (),
    ) -> None:
        """`dead_letters` are the queues that its dead letters may be in; `strange` are names of
        batches in `new` that have other ids than those that it will look for. Raises OSError."""
        self._spool, self._root, self._done = spool, f"{spool.root}", done
        ready, delayed = f"{Folder.QUEUES}/{queue}/", f"{Folder.DELAY}/{queue}:"
        batches = published_batches(spool, queue, strange)
        self._first = [
            f"{Folder.NEW}/{queue}:",
            *(f"{Folder.NEW}/{name}/{queue}:" for name in batches),
            *(ready, delayed) * ON_ITS_WAY,
            *(f"{Folder.NEW}/{name}/{HIDDEN}{queue}:" for name in batches if is_handover(name)),
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
            yield from self._in_stage(stage, message_id)

    def missing(self, message_ids: Iterable[MessageId]) -> set[MessageId]:
        """Return those ids for which `find` finds nothing, by the same looks in the same order. The
        looks are made for all ids together, in a third of the time. Raises OSError."""
        left = set(message_ids)
        for stage in self._stages():
            heads, dead = stage
            found = left if callable(heads) else left - {*self._absent(heads, [*left])}
            if callable(heads) or dead is not None:
                found = {each for each in found if any(self._in_stage(stage, each))}
            left -= found
        return left

    def _in_stage(self, stage: _Stage, message_id: MessageId) -> Iterator[str]:
        heads, dead = stage
        paths = heads(message_id) if callable(heads) else (head + message_id for head in heads)
        for path in self._existing(paths):
            if dead is None or self._died_here(path, dead):
                yield path

    def _died_here(self, path: str, dead: QueueName) -> bool:
        """Return whether a message in the queue `dead` says that it came from this queue. Others
        may be there too: they were published there, or died in a third queue. In QUEUE.dead, which
        by default takes the dead letters of QUEUE only, a message that says nothing counts too."""
        try:
            value = self._spool.files.attribute(f"{self._root}/{path}", DEAD_ATTRIBUTE)
        except OSError as error:
            if error.errno in NO_MESSAGE:
                return False
            raise
        burial = burial_in(value, dead)
        if burial is None:
            return dead == dead_letter_queue(self._queue)
        return burial.queue == self._queue

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
        """Yield the stages of a message's way. Each holds the places that the message can reach
        from the stage before. A caller that asks for the next stage is done with this one."""
        yield _Stage(self._first)
        yield from self._taken(self._queue)
        for dead in self._dead_letters:
            ready, flat = f"{Folder.QUEUES}/{dead}/", f"{dead}:"
            if self._spool.files.exists(None, f"{self._root}/{ready}"):
                yield _Stage([ready, f"{Folder.DELAY}/{flat}", ready], dead)
            yield from self._taken(dead, dead)
            yield _Stage([ready, f"{Folder.REMOVE}/{flat}"], dead)
            yield _Stage(self._purged(dead), dead)
        yield _Stage(self._last)
        yield _Stage(self._purged(self._queue))

    def _purged(self, queue: QueueName) -> list[str]:
        folder, files = f"{Folder.REMOVE}/{queue}{PURGED_SUFFIX}", self._spool.files
        if files.is_of_network:
            # This host may have looked before another one made it.
            files.exists(None, f"{self._root}/{folder}")
        return list(places_in(folders_in(self._root, folder), queue))

    def _taken(self, queue: QueueName, dead: QueueName | None = None) -> Iterator[_Stage]:
        """Yield the places where Spark queries have a message, or had it."""
        groups, flat = folders_in(self._root, GROUPS), f"{queue}:"
        if groups:
            yield _Stage(lambda each: _claimed(self._root, groups, flat + each), dead)
        yield _Stage(lambda each: self._done.paths(flat + each, groups), dead)


def queue_of_path(path: str) -> str:
    """Return the queue that a path of `Finder.find` belongs to."""
    folder, *inside = path.split("/")
    if folder == Folder.QUEUES:
        return inside[0]
    flat = next(each for each in reversed(inside) if ":" in each)
    return flat.partition(":")[0]


def is_taken(
    files: Files, queues_fd: int, queue: QueueName, message_id: MessageId, inode: int
) -> bool:
    """Return whether a queue has a message of that id which is not the file `inode`: on its way,
    ready, hidden, or claimed by Spark; or removed, while another process has that under its lock.
    For a process that has only the folder `queues` of the root open. The caller holds the lock of
    the id. Raises OSError."""
    root, flat = f"/proc/self/fd/{queues_fd}/..", file_name(queue, message_id)
    ways = (f"{Folder.QUEUES}/{queue_path(queue, message_id)}", f"{Folder.DELAY}/{flat}")

    def places() -> Iterator[str]:
        yield f"{Folder.NEW}/{flat}"
        for folder in folders_in(root, Folder.NEW):
            if not folder.endswith(OPEN_SUFFIX) and _may_have(folder.rpartition("/")[2], queue):
                yield f"{folder}/{flat}"
        yield from ways * ON_ITS_WAY
        yield from _claimed(root, folders_in(root, GROUPS), flat)
        yield from ways  # A claim may have been given back meanwhile.

    if any(_is_another(files, queues_fd, f"../{place}", inode) for place in places()):
        return True
    return try_locks(files, queues_fd, [f"../{Folder.REMOVE}/{flat}"]) == [errno.EWOULDBLOCK]


def _is_another(files: Files, folder_fd: int, name: str, inode: int) -> bool:
    try:
        return files.exists(folder_fd, name) and files.status_of(folder_fd, name).st_ino != inode
    except FileNotFoundError:
        return False


def _claimed(root: str, groups: Iterable[str], flat: str) -> Iterator[str]:
    """Yield the places in claimed sets: `GROUP/CLAIM/QUEUE:ID`, or a level deeper. A claim that is
    sealed meanwhile gets a new name: so each group is listed until it has none that is new."""
    for group in groups:
        seen: set[str] = set()
        while claims := {*folders_in(root, group)} - seen:
            seen |= claims
            for claim in claims:
                yield f"{claim}/{flat}"
                for part in folders_in(root, claim):
                    yield f"{part}/{flat}"


def published_batches(spool: Spool, queue: QueueName, strange: Container[str] = ()) -> list[str]:
    """Return the batches in `new` that count and may have messages of a queue, but for those of
    `strange`. An open handover is followed by the name that a sweep may give it at any moment."""
    found: list[str] = []
    for name in _names_in_new(spool):
        if name not in strange and _may_have(name, queue) and is_published(spool, name):
            found += dict.fromkeys((name, name.removesuffix(OPEN_SUFFIX)))
    return found


def _names_in_new(spool: Spool) -> list[str]:
    """Return the names in `new`, or none if there are no batches. Usually there are none, and the
    number of links of `new` says so on file systems that count folders there. That of a network
    file system may not count them, or be from before another host made one."""
    if not spool.files.is_of_network and os.fstat(spool.fd(Folder.NEW)).st_nlink == 2:
        return []
    return spool.names(Folder.NEW)


def _may_have(name: str, queue: QueueName) -> bool:
    batch = parse_batch_name(name)
    return batch is not None and batch.may_have(queue)
