"""Settings of queues whose file is damaged."""

from __future__ import annotations

from dataclasses import dataclass

from mq.fsck.suspect import FindingKind, SuspectPlace, move_to_corrupt
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.settings_file import SETTINGS_FILE, read_settings, settings_lock
from mq.spool.spool import Spool


@dataclass(frozen=True)
class DamagedSettings:
    """A file `.settings` that counts as empty."""

    spool: Spool
    queue: QueueName
    kind = FindingKind.SETTINGS

    @property
    def path(self) -> str:
        return str(self._place)

    @property
    def _place(self) -> SuspectPlace:
        return SuspectPlace(Folder.QUEUES, f"{self.queue}/{SETTINGS_FILE}")

    def look(self) -> str | None:
        try:
            opened = self.spool.queues.open(self.queue)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return read_settings(self.spool.files, opened, self.queue).fault

    def mend(self) -> str | None:
        """Set the file aside. Its settings had no effect, so the queue stays as it was. The lock
        keeps others from putting good ones in its place between the look and the move."""
        with settings_lock(self.spool, self.queue):
            return move_to_corrupt(self.spool, self._place) if self.look() else None
