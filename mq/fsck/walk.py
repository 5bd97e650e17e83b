"""Go through every folder of a root once, and say what may be wrong with each file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from mq.disk.files import HIDDEN
from mq.fsck.damage import AbandonedBatch, Damaged, Deletion, Leftover, Orphan
from mq.fsck.duplicate import Duplicate, step_of
from mq.fsck.implausible import Implausible
from mq.fsck.settings import DamagedSettings
from mq.fsck.strays import (
    FILE_NEEDS,
    FOLDER_NEEDS,
    DeadUpload,
    Foreign,
    UnreadableQueue,
    WrongMode,
    kind_of,
)
from mq.fsck.suspect import UNREADABLE, Suspect, SuspectPlace
from mq.fsck.tree import OldFormat
from mq.lifecycle import Folder
from mq.names import (
    DEAD_SUFFIX,
    QueueName,
    is_message_id,
    is_queue_name,
    parse_file_name,
)
from mq.spool.batch_names import parse_batch_name
from mq.spool.handovers import is_published
from mq.spool.message.burial import DEAD_ATTRIBUTE, Burial, burial_in
from mq.spool.queue.purged import parts_of
from mq.spool.queue.queues import DELETING_SUFFIX, unfinished_deletions
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq.spool.removed_folders import is_removed_folder
from mq.spool.spool import Spool


class Walk:
    """One pass. `progress` is called with the number of names that were looked at, and of all
    names.

    A file that moves meanwhile may be seen twice or not at all. A suspect looks again before it
    counts, and a file that was missed was not left behind.
    """

    def __init__(
        self, spool: Spool, progress: Callable[[int, int], None], settle_seconds: float
    ) -> None:
        self._spool = spool
        self._progress = progress
        self._settle_ns = int(settle_seconds * 1e9)
        self._done = 0
        self._total = 0
        self._seen: dict[str, Folder | SuspectPlace] = {}
        """Where a message `QUEUE:ID` was seen: under that name in a folder, or elsewhere in one."""
        self._owner = os.stat(spool.root).st_uid
        self._knows_format = spool.has_long_seals

    def suspects(self) -> Iterator[Suspect]:
        """Yield what may be wrong. Raises OSError if one of the root's own folders cannot be
        listed."""
        self._total = self._count()
        for queue in unfinished_deletions(self._spool):
            place = SuspectPlace(Folder.REMOVE, queue + DELETING_SUFFIX)
            status = self._spool.status(*place)
            if status is not None and stat.S_ISDIR(status.st_mode):
                yield Deletion(self._spool, queue, status.st_ino)
            elif status is not None:
                yield Foreign(self._spool, place, status.st_ino, f"{kind_of(status)}, not a folder")
        for folder in (Folder.NEW, Folder.DELAY, Folder.REMOVE):
            for name in self._spool.names(folder):
                place = SuspectPlace(folder, name)
                yield from self._unless_unreadable(place, self._in_flat_folder(place))
        for name in self._spool.names(Folder.QUEUES):
            place = SuspectPlace(Folder.QUEUES, name)
            try:
                yield from self._in_queues(place)
            except OSError as error:
                if error.errno not in UNREADABLE:
                    raise
                yield UnreadableQueue(self._spool, place, os.strerror(error.errno))

    def _count(self) -> int:
        """Return about how many names there are. A folder that cannot be listed is a finding
        later."""
        total = 0
        for folder in (Folder.NEW, Folder.DELAY, Folder.REMOVE, Folder.QUEUES):
            total += len(self._spool.names(folder))
        for name in self._spool.names(Folder.QUEUES):
            try:
                total += len(self._spool.names_in_queue(QueueName(name)))
            except OSError:
                continue
        return total

    def _tick(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)

    def _in_flat_folder(self, place: SuspectPlace) -> Iterator[Suspect]:
        self._tick()
        status = self._spool.status(*place)
        if status is None:
            return
        batch = parse_batch_name(place.name)
        if place.folder is Folder.REMOVE:
            yield from self._in_remove(place, status)
        elif stat.S_ISDIR(status.st_mode) and place.folder is Folder.NEW and batch is not None:
            yield AbandonedBatch(self._spool, place, batch)
            if is_published(self._spool, place.name):
                yield from self._second_names_in(place)
        elif not stat.S_ISREG(status.st_mode):
            yield Foreign(self._spool, place, status.st_ino, f"{kind_of(status)}, not a message")
        elif place.name.startswith(HIDDEN):
            yield DeadUpload(self._spool, place, status.st_ino, self._settle_ns)
        elif (parsed := parse_file_name(place.name)) is None:
            yield Foreign(self._spool, place, status.st_ino, "not a name of the form QUEUE:ID")
        else:
            yield from self._message(place, status)
            yield Orphan(self._spool, place, parsed[0])
            if place.folder is Folder.NEW:
                yield Leftover(self._spool, place, *parsed)

    def _in_remove(self, place: SuspectPlace, status: os.stat_result) -> Iterator[Suspect]:
        """Yield what may be wrong in `remove`. The reaper unlinks a file whatever its name; only a
        folder must be that of a deleted queue."""
        if not stat.S_ISDIR(status.st_mode):
            yield from self._second_names(place, place.name)
        elif not is_removed_folder(place.name):
            yield Foreign(self._spool, place, status.st_ino, "not the folder of a deleted queue")
        else:
            yield WrongMode(self._spool, place, FOLDER_NEEDS, self._owner)
            for part in parts_of(self._spool, place.name):
                yield from self._second_names_in(SuspectPlace(Folder.REMOVE, part))

    def _in_queues(self, place: SuspectPlace) -> Iterator[Suspect]:
        self._tick()
        status = self._spool.status(*place)
        if status is None:
            return
        if stat.S_ISREG(status.st_mode) and place.name.startswith(HIDDEN):
            yield DeadUpload(self._spool, place, status.st_ino, self._settle_ns)
        elif not stat.S_ISDIR(status.st_mode):
            yield Foreign(self._spool, place, status.st_ino, f"{kind_of(status)}, not a queue")
        elif not is_queue_name(place.name):
            yield Foreign(self._spool, place, status.st_ino, "a folder that is not a queue")
        elif status.st_dev != os.fstat(self._spool.fd(Folder.QUEUES)).st_dev:
            why = "another file system is mounted there, and no message can be moved to it"
            yield Foreign(self._spool, place, status.st_ino, f"{why}: unmount it")
        else:
            yield WrongMode(self._spool, place, FOLDER_NEEDS, self._owner)
            yield from self._in_queue(QueueName(place.name))

    def _in_queue(self, queue: QueueName) -> Iterator[Suspect]:
        try:
            names = self._spool.names_in_queue(queue)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            # It was deleted meanwhile, or its owner or mode is a finding.
            return
        for name in names:
            self._tick()
            place = SuspectPlace(Folder.QUEUES, f"{queue}/{name}")
            yield from self._unless_unreadable(place, self._file_in_queue(queue, name, place))

    def _file_in_queue(self, queue: QueueName, name: str, place: SuspectPlace) -> Iterator[Suspect]:
        status = self._spool.status(*place)
        if status is None:
            return
        if name == SETTINGS_FILE:
            yield from self._settings(queue, place, status)
        elif not stat.S_ISREG(status.st_mode):
            yield Foreign(self._spool, place, status.st_ino, f"{kind_of(status)}, not a message")
        elif not is_message_id(name):
            yield Foreign(self._spool, place, status.st_ino, "not the id of a message")
        else:
            yield from self._message(place, status)
            yield from self._where_it_died(queue, name, place)

    def _settings(
        self, queue: QueueName, place: SuspectPlace, status: os.stat_result
    ) -> Iterator[Suspect]:
        fd, bare, _keeper = self._spool.at(*place)
        may_read = os.access(bare, os.R_OK, dir_fd=fd, effective_ids=True)
        if stat.S_ISREG(status.st_mode) and not may_read:
            yield WrongMode(self._spool, place, FILE_NEEDS, self._owner)
        yield DamagedSettings(self._spool, queue)

    def _where_it_died(self, queue: QueueName, name: str, place: SuspectPlace) -> Iterator[Suspect]:
        """Yield a dead letter that is seen where it died too. A crash may have come between its
        link and unlink, or it died while the root was copied."""
        burial = self._burial_of(place, queue)
        if burial is not None:
            yield from self._second_names(place, f"{burial.queue}:{name}")
            yield Duplicate(
                self._spool, SuspectPlace(Folder.QUEUES, f"{burial.queue}/{name}"), place
            )
        elif queue.endswith(DEAD_SUFFIX):
            yield from self._second_names(place, f"{queue.removesuffix(DEAD_SUFFIX)}:{name}")

    def _burial_of(self, place: SuspectPlace, queue: QueueName) -> Burial | None:
        try:
            fd, bare, _keeper = self._spool.at(*place)
            path = f"/proc/self/fd/{fd}/{bare}"
            return burial_in(self._spool.files.attribute(path, DEAD_ATTRIBUTE), queue)
        except OSError:
            return None  # It is gone, or a finding of its own.

    def _unless_unreadable(
        self, place: SuspectPlace, suspects: Iterator[Suspect]
    ) -> Iterator[Suspect]:
        """Yield what may be wrong with a file. If it cannot even be looked at, that is wrong."""
        try:
            yield from suspects
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            yield Damaged(self._spool, place)

    def _message(self, place: SuspectPlace, status: os.stat_result) -> Iterator[Suspect]:
        if status.st_mode & FILE_NEEDS != FILE_NEEDS or status.st_uid != self._owner:
            yield WrongMode(self._spool, place, FILE_NEEDS, self._owner)
        yield Damaged(self._spool, place)
        yield Implausible(self._spool, place)
        yield from self._format(place)
        yield from self._second_names(place, place.message)

    def _format(self, place: SuspectPlace) -> Iterator[Suspect]:
        """Yield a format that is too old, once for the root."""
        if not self._knows_format:
            suspect = OldFormat(self._spool, place)
            self._knows_format = suspect.look() is not None
            if self._knows_format:
                yield suspect

    def _second_names_in(self, folder: SuspectPlace) -> Iterator[Suspect]:
        """Yield messages in a published batch, or among what was purged, that were seen in another
        folder too."""
        try:
            names = self._spool.names_below(*folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        for name in names:
            place = SuspectPlace(folder.folder, f"{folder.name}/{name}")
            if is_message_id(name) or parse_file_name(name.removeprefix(HIDDEN)) is not None:
                yield from self._second_names(place, place.message)

    def _second_names(self, place: SuspectPlace, message: str) -> Iterator[Suspect]:
        """Yield a message that was seen in another folder too: the name further on its way stays.
        Queues come last and hold a message once, so only the other folders are remembered."""
        known = self._seen.get(message)
        if known is not None:
            seen = known if isinstance(known, SuspectPlace) else SuspectPlace(known, message)
            if step_of(seen) != step_of(place):
                other, kept = sorted((seen, place), key=step_of)
                yield Duplicate(self._spool, other, kept)
        if place.folder is not Folder.QUEUES:
            self._seen[message] = place.folder if place.name == message else place
