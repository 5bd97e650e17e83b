"""The reaper: the only one that unlinks messages.

Before each batch of unlinks the file system is synced once, so that no older name of a removed
message can come back after a power cut. It follows no link and never leaves its folder: every name
is unlinked relative to an open folder. `QUEUE:.deleting` belongs to a deletion under way.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

import structlog

from mq.config import ReaperConfig
from mq.errors import ExitCode, StartRefused
from mq.logs import Once, report_left
from mq.spool.files import Files
from mq.spool.folders import DELETING_SUFFIX

log = structlog.get_logger(__name__)

_NS = 1_000_000_000
_SCAN_PAUSE_FACTOR = 20
"""A scan that took T is not repeated within this many times T."""


class Reaper:
    """Reaps `config.source`. Raises StartRefused."""

    def __init__(self, config: ReaperConfig, files: Files) -> None:
        self._config = config
        self._files = files
        self._keep_ns = int(config.keep_seconds * _NS)
        self._report = Once(report_left)
        try:
            self._folder = files.open_folder(None, str(config.source))
        except OSError as error:
            raise StartRefused(
                ExitCode.ROOT,
                f"folder {config.source}: {error.strerror}; make it, or start mq first",
            ) from error

    def close(self) -> None:
        self._files.close(self._folder)

    def run(self) -> None:
        """Reap until the process ends."""
        while True:
            started = time.monotonic()
            try:
                reaped = self.reap()
                if reaped:
                    log.info("reaped", files=reaped, seconds=round(time.monotonic() - started, 3))
            except OSError as error:
                log.error("reaping failed; trying again", error=str(error))
            took = time.monotonic() - started
            time.sleep(max(self._config.rescan_seconds, _SCAN_PAUSE_FACTOR * took))

    def reap(self) -> int:
        """Unlink all that is due now; returns how many files. What cannot be unlinked stays and is
        reported once. Raises OSError if a sync or a listing fails."""
        folders: list[str] = []
        count = self._unlink_batches(self._folder, self._due(folders))
        for name in folders:
            count += self._reap_queue(name)
        return count

    def _due(self, folders: list[str]) -> Iterator[str]:
        """Files that were removed long enough ago; folders of that age go to `folders`."""
        deadline = time.time_ns() - self._keep_ns
        for name in self._list(self._folder):
            status = self._status(self._folder, name)
            if status is None or status.st_ctime_ns > deadline:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield name
            elif ":." in name and not name.endswith(DELETING_SUFFIX):
                folders.append(name)
            elif not name.endswith(DELETING_SUFFIX):
                self._report(name, "not the folder of a deleted queue")

    def _reap_queue(self, name: str) -> int:
        """Empty and remove the folder of a deleted queue."""
        try:
            folder = self._files.open_folder(self._folder, name)
        except OSError as error:
            self._report(name, f"{error.strerror}")
            return 0
        try:
            inside = []
            for message in self._list(folder):
                status = self._status(folder, message)
                if status is not None and not stat.S_ISDIR(status.st_mode):
                    inside.append(message)
            count = self._unlink_batches(folder, iter(inside))
        finally:
            self._files.close(folder)
        try:
            self._files.remove_folder(self._folder, name)
        except OSError as error:
            self._report(name, f"{error.strerror}")
        return count

    def _unlink_batches(self, folder: int, names: Iterator[str]) -> int:
        count = 0
        batch: list[str] = []
        for name in names:
            batch.append(name)
            if len(batch) == self._config.batch_files:
                count += self._unlink(folder, batch)
                batch = []
                time.sleep(self._config.pause_seconds)
        return count + (self._unlink(folder, batch) if batch else 0)

    def _unlink(self, folder: int, batch: list[str]) -> int:
        self._sync()
        count = 0
        for name in batch:
            try:
                self._files.unlink(folder, name)
                count += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                self._report(name, f"{error.strerror}")
        return count

    def _sync(self) -> None:
        """On a new descriptor: an error belongs to this batch, which is then not unlinked."""
        fd = self._files.open_folder(self._folder, ".")
        try:
            self._files.sync_file_system(fd)
        finally:
            self._files.close(fd)

    def _list(self, folder: int) -> list[str]:
        fd = self._files.open_folder(folder, ".")
        try:
            return os.listdir(fd)
        finally:
            self._files.close(fd)

    @staticmethod
    def _status(folder: int, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
