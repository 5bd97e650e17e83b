"""The sweep finishes what a crash left behind.

A publisher holds its message's lock from before the name exists until delivery. So a file in `new`
whose lock is free was left by a crash, and one that is held is in use and left alone. What was left
is written again before it is delivered (`mq.spool.message.fresh_copy`), except for batches, which
are synced before they count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from mq.command.logs import Once
from mq.config import FOLDER_LOCK_SECONDS
from mq.disk.files import HIDDEN
from mq.errors import MQError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, parse_file_name, queue_path
from mq.spool.batch_names import BatchName, parse_batch_name
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.handovers import give_up
from mq.spool.message.fresh_copy import FreshCopy, copy_message
from mq.spool.message.held import Held, Lost, fails_its_seal, hold, set_aside
from mq.spool.message.seal import is_stamped_ahead
from mq.spool.message.second_names import finish_move
from mq.spool.queue.purged import close_abandoned
from mq.spool.queue.queues import DELETING_SUFFIX, finish_deletion, unfinished_deletions
from mq.spool.rolling import by_stamp, roll_forward
from mq.spool.sets import hold_set, members
from mq.spool.spark.transactions import sweep_transactions
from mq.spool.spool import Spool
from mq.spool.trouble import find_moved_folder

FEW_LEFTOVERS = 16
"""The first leftovers of a sweep go one after the other: a few are not worth threads."""

_LEFTOVERS_AT_ONCE = 8
_NAMES_AT_ONCE = 512


class Swept(NamedTuple):
    """The result of one sweep."""

    delivered: int = 0
    corrupt: int = 0
    deletions: int = 0
    sets: int = 0


_NOTHING = Swept()
_DELIVERED = Swept(delivered=1)
_SET_ASIDE = Swept(corrupt=1)


class Sweeper:
    """Sweeps one root, again and again. `report` is called once for each file that cannot be
    placed, with its name and the reason."""

    def __init__(self, spool: Spool, report: Callable[[str, str], None]) -> None:
        self._spool = spool
        self._report = Once(report)
        self.was_hindered = False
        """Whether an error of the disk hindered the last sweep, so that another one soon is
        worthwhile."""
        self.uncopied: set[str] = set()
        """The messages in `new` that could not be written again, because of an error of the
        disk."""
        self._whole: dict[str, tuple[int, int]] = {}
        self._was_whole: dict[str, tuple[int, int]] = {}

    def sweep(self) -> Swept:
        """Finish deletions and batches, including those of Spark, deliver the leftovers of `new`,
        and set damaged ones aside.

        Safe beside running servers, movers and other sweeps. It removes only unfinished uploads and
        batches of dead processes. A file that it cannot handle does not stop it from handling the
        others. Raises OSError if a folder cannot be listed.
        """
        self.was_hindered = False
        self.uncopied.clear()
        self._was_whole, self._whole = self._whole, {}
        deletions = sum(self._finish_deletion(q) for q in unfinished_deletions(self._spool))
        total = Swept(deletions=deletions)
        self._close_purges()
        for swept in self._sweep_new():
            total = Swept(*map(sum, zip(total, swept, strict=True)))
        return total._replace(delivered=total.delivered + self._finish_spark())

    def _sweep_new(self) -> Iterator[Swept]:
        """Sweep each name in `new`: the first leftovers one after the other, and if there are more,
        several at a time, as the sweeps of several servers would. The file system makes their syncs
        durable together."""
        names, delivered = iter(self._spool.names(Folder.NEW)), 0
        for name in names:
            swept = self.sweep_name(name)
            delivered += swept.delivered
            yield swept
            if delivered >= FEW_LEFTOVERS:
                break
        while some := list(islice(names, _NAMES_AT_ONCE)):
            threads = _LEFTOVERS_AT_ONCE if self._has_room_for_copies(some) else 1
            with ThreadPoolExecutor(threads, "sweep") as pool:
                yield from pool.map(self.sweep_name, some)

    def _has_room_for_copies(self, names: Iterable[str]) -> bool:
        """Return whether the disk has room for several copies at a time. A leftover for whose copy
        there is no room is delivered as it is."""
        largest = max(map(self._size_of, names), default=0)
        disk = os.fstatvfs(self._spool.fd(Folder.NEW))
        return disk.f_bavail * disk.f_frsize > 2 * _LEFTOVERS_AT_ONCE * largest

    def _size_of(self, name: str) -> int:
        """Return the size of a file in `new`, and 0 for one that is gone or cannot be looked at."""
        try:
            status = self._spool.status(Folder.NEW, name)
        except OSError:
            status = None
        return 0 if status is None else status.st_size

    def sweep_name(self, name: str) -> Swept:
        """Sweep what has this name in `new`: a message, an upload or a batch."""
        batch = parse_batch_name(name)
        if batch is not None:
            return self.finish_batch(name, batch)
        return self.deliver(name)

    def _close_purges(self) -> None:
        try:
            close_abandoned(self._spool)
        except OSError as error:
            self._fail(str(Folder.REMOVE), error)

    def _finish_spark(self) -> int:
        """Finish what the tasks of Spark jobs have staged, and return how many messages were
        delivered."""
        if not (self._spool.root / Folder.SPARK).is_dir():
            return 0
        if find_moved_folder(self._spool) is not None:
            return 0  # At that path is the folder of another root.
        return sweep_transactions(self._spool, time.time_ns(), self._fail)

    def deliver(self, name: str) -> Swept:
        """Deliver a message of `new`, set a damaged one aside, or discard an upload."""
        try:
            if not name.startswith(HIDDEN):
                return self._place(name)
            self._discard_upload(name)
        except OSError as error:
            self._fail(os.path.join(Folder.NEW, name), error)
        return _NOTHING

    def _finish_deletion(self, queue: QueueName) -> bool:
        try:
            finish_deletion(self._spool, queue)
        except OSError as error:
            self._fail(os.path.join(Folder.REMOVE, queue + DELETING_SUFFIX), error)
            return False
        return True

    def _place(self, name: str) -> Swept:
        parsed = parse_file_name(name)
        if parsed is None:
            self._leave(name, "not a name of the form QUEUE:ID")
            return _NOTHING
        held = self._hold(name)
        if isinstance(held, Lost):
            if held is Lost.FOREIGN:
                self._leave(name, held.value)
            return _NOTHING
        with held:
            if self._is_damaged(name, held):
                is_aside = set_aside(self._spool, Folder.NEW, held, FOLDER_LOCK_SECONDS)
                return _SET_ASIDE if is_aside else _NOTHING
            try:
                if self._move_on(held, *parsed):
                    return _DELIVERED
            except FileExistsError:
                self._leave(name, f"queue {parsed[0]} has another message of that id")
                return _NOTHING
        if self._spool.inode(Folder.NEW, name) == held.status.st_ino:
            self._leave(name, f"there is no queue {parsed[0]}")
        return _NOTHING

    def _is_damaged(self, name: str, held: Held) -> bool:
        """Return whether a file is damaged. The whole body is read, except of a file that the sweep
        before had to leave as it is."""
        version = held.status.st_ino, held.status.st_ctime_ns
        if self._was_whole.get(name) != version and fails_its_seal(held, self._spool.files):
            return True
        self._whole[name] = version
        return False

    def _move_on(self, held: Held, queue: QueueName, message_id: MessageId) -> bool:
        """Move a message to its queue, or to `delay` if it was published with a delay that is not
        over; but first write it again."""
        spool, name = self._spool, held.name
        if finish_move(spool, Folder.NEW, name, held.status):
            return True
        target = Folder.QUEUES, queue_path(queue, message_id)
        if is_stamped_ahead(held.status, time.time_ns()):
            target = Folder.DELAY, name
        copy: FreshCopy | None = None
        try:
            spool.queues.open(queue)
            if spool.exists(*target):
                raise FileExistsError
            self.uncopied.add(name)
            copy = copy_message(spool, held)
            with spool.queues.shared(queue, FOLDER_LOCK_SECONDS):
                is_here = spool.inode(Folder.NEW, name) == held.status.st_ino
                if is_here and copy is not None:
                    copy.take_place()
                self.uncopied.discard(name)
                # Another message that has the name by now is its publisher's.
                return is_here and spool.move(Folder.NEW, name, *target)
        except (FileNotFoundError, NotADirectoryError):
            self.uncopied.discard(name)
            return False
        finally:
            if copy is not None:
                copy.close()

    def finish_batch(self, name: str, batch: BatchName) -> Swept:
        """Roll a published batch forward, or give up one of which no client was told."""
        try:
            fd = hold_set(self._spool, Folder.NEW, name)
            if isinstance(fd, Lost):
                if fd is Lost.FOREIGN:
                    self._leave(name, "not the folder of a batch")
                return _NOTHING
            try:
                sealed = give_up(self._spool, batch) if name == batch.open else name
                return Swept(sets=1) if sealed is None else self._roll_forward(sealed)
            finally:
                self._spool.files.close(fd)
        except OSError as error:
            self._fail(os.path.join(Folder.NEW, name), error)
            return _NOTHING

    def _roll_forward(self, name: str) -> Swept:
        present = members(self._spool, Folder.NEW, name)
        corrupt = sum(self._set_aside_if_damaged(f"{name}/{member}") for member in present)
        rolled = roll_forward(self._spool, Folder.NEW, name, by_stamp(time.time_ns()))
        for member, why in rolled.left.items():
            error = rolled.errors.get(member)
            if error is None:
                self._leave(f"{name}/{member}", why)
            else:
                self._fail(os.path.join(Folder.NEW, name, member), error)
        delivered = len(present) - corrupt - len(rolled.left)
        is_gone = not self._spool.exists(Folder.NEW, name)
        if not is_gone and not rolled.left:
            self._leave(name, "it holds files that are not messages, and nothing else")
        return Swept(delivered, corrupt, sets=int(is_gone))

    def _set_aside_if_damaged(self, path: str) -> bool:
        """Return whether a member was set aside. If the disk does not say what it is, it goes to
        its queue, as the others do: its receiver finds out."""
        try:
            held = self._hold(path)
            if isinstance(held, Lost):
                return False
            with held:
                name = path.rpartition("/")[2]
                if self._is_damaged(path, held):
                    self._spool.move_aside(Folder.NEW, path, Folder.CORRUPT, name)
                    return True
        except OSError as error:
            self._fail(os.path.join(Folder.NEW, path), error)
        return False

    def _discard_upload(self, name: str) -> None:
        """Discard a hidden file whose lock is free: it is an upload, and its process died."""
        held = self._hold(name)
        if not isinstance(held, Lost):
            with held:
                self._spool.unlink(Folder.NEW, name)

    def _hold(self, name: str) -> Held | Lost:
        return hold(self._spool.files, self._spool.fd(Folder.NEW), name)

    def _leave(self, name: str, why: str) -> None:
        self._report(os.path.join(Folder.NEW, name), why)

    def _fail(self, path: str, error: OSError | MQError) -> None:
        if isinstance(error, MQError):
            self._report(path, str(error))
            return
        self._report(path, error.strerror or str(error))
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            self.was_hindered = True
