"""A lake: Parquet files by queue and day, each message in one of them.

    LAKE/queue=QUEUE/day=YYYY-MM-DD/*.parquet   what readers see
    LAKE/_checkpoint/                           of the archive that fills the lake: `checkpoint`
    LAKE/_incoming/JOB.UUID/                    files that are written and not placed yet
    LAKE/_placing/JOB.json                      which of them go where, and what they replace
    LAKE/_columns/NUMBER.json                   the columns of `body`, the greatest number counts

A batch is written to `_incoming`, synced, and listed in `_placing`. From there on it counts: its
files are renamed to their places, and a crash in between is finished by the next start. A batch
that Spark runs again is placed already and is not written again. Readers take no folder whose name
begins with `_`.

Only the archive that holds the lake's lock adds and compacts. Each try writes to a folder of its
own: the Spark of an archive that was killed may go on writing for a moment.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from mq.errors import CommandFailed, ExitCode, MQError
from pyspark_mq.pipeline.lake.checkpoint import CHECKPOINT, job_of, mend_checkpoint, query_id
from pyspark_mq.pipeline.lake.folder import LakeFolder
from pyspark_mq.pipeline.lake.merging import files_to_merge, read_merged
from pyspark_mq.pipeline.lake.placing import COMPACTION, INCOMING, PLACING, Placings
from pyspark_mq.pipeline.running.causes import JobRefused, reason_of

_QUEUE = "queue="
_PARQUET = ".parquet"
_POLL_SECONDS = 0.2
_LOCK_SECONDS = 5.0
_COMPACTION_SECONDS = 600.0
"""How long a reader waits for a compaction to place its files, which are renames alone."""

SMALL_FILE_BYTES = 32 * 2**20
MOST_SMALL_FILES = 8
"""If one queue and day has more small files than this, they are merged into one."""
_FILE_BYTES = 128 * 2**20

Warn = Callable[[str], object]


class LakeBusy(MQError):
    """Another process keeps moving the lake's files."""


class Lake:
    """A lake. Nothing is made until it is held or written."""

    def __init__(self, spark: Any, path: str, warn: Warn = lambda _: None) -> None:
        """`warn` is told what to look at. Raises JobRefused for what no archive has made."""
        self._spark = spark
        self._name = path
        self._warn = warn
        try:
            self.folder = LakeFolder(spark, path)
            self.placings = Placings(self.folder)
            if self.folder.exists("") and not self.folder.is_folder(""):
                raise JobRefused(f"lake {path} is a file; name a folder, or one to be made")
            others = [name for name in self.folder.names("") if not _is_of_a_lake(name)]
        except Py4JJavaError as error:
            raise JobRefused(f"lake {path}: {reason_of(error)}") from None
        if others:
            raise JobRefused(
                f"lake {path} has {others[0]} in it, which is not part of a lake; name a lake or "
                "an empty folder"
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the lake where it is missing, and be the only archive that fills it. Finishes what
        an earlier one has left. Raises CommandFailed."""
        try:
            self.folder.make(PLACING)
            if not self.folder.is_writable():
                raise PermissionError("permission denied")
        except (OSError, Py4JJavaError) as error:
            raise CommandFailed(
                ExitCode.ROOT,
                f"lake {self._name} cannot be made or written: {reason_of(error)}; make the folder "
                "for this user, or name another one",
            ) from None
        # A replay has the lock for a moment.
        with self.folder.listening(), self.folder.locked(_LOCK_SECONDS) as is_held:
            if not is_held:
                raise CommandFailed(
                    ExitCode.TRY_AGAIN,
                    f"lake {self._name}: another archive fills it now; wait for its end, or stop "
                    "it",
                )
            self.placings.place_all()
            mend_checkpoint(self.folder, self.placings.jobs())
            self._forget_abandoned()
            yield

    @property
    def checkpoint(self) -> str:
        return self.folder.full(CHECKPOINT)

    def add(self, frame: Any, batch: int) -> None:
        """Put the rows of a batch into the lake, durably, and only once however often the batch is
        run."""
        job = job_of(query_id(self.folder), batch)
        if not self.placings.has(job):
            incoming = _incoming_of(job)
            writer = frame.write.partitionBy("queue", "day")
            writer.parquet(self.folder.full(incoming))
            self.placings.decide(job, self._places(incoming, job), [])
        self.placings.place(job)
        self.placings.forget_before(job)

    def _places(self, incoming: str, job: str) -> dict[str, str]:
        places = {}
        files = [name for name in self.folder.files(incoming) if name.endswith(_PARQUET)]
        for number, name in enumerate(sorted(files)):
            partition = name.rpartition("/")[0]
            places[f"{incoming}/{name}"] = f"{partition}/{job}-{number:04}.parquet"
        return places

    def finish(self) -> None:
        """Bring to their places the files that a crash has left on their way, unless an archive is
        at work, which does that itself."""
        if self.placings.jobs():
            with self.folder.locked() as is_held:
                if is_held and self.placings.are_on_their_way():
                    self.placings.place_all()

    def _forget_abandoned(self) -> None:
        """Remove what was written and never counted."""
        for name in self.folder.names(INCOMING):
            self.folder.remove(f"{INCOMING}/{name}")

    # Reading

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the files that there are: no compaction replaces them in this block."""
        with self.folder.shared(_COMPACTION_SECONDS, PLACING):
            yield

    def files(self) -> list[str]:
        """Return the addresses of all files with data. A compaction that is under way is waited
        for: until it ends some rows are in no file. Raises LakeBusy."""
        give_up_at = time.monotonic() + _COMPACTION_SECONDS
        while True:
            before = self._sizes()
            if not self.placings.are_compacting() and self._sizes().keys() == before.keys():
                return [self.folder.full(name) for name in sorted(before)]
            if time.monotonic() > give_up_at:
                raise LakeBusy(f"lake {self._name} does not come to rest: is it being compacted?")
            time.sleep(_POLL_SECONDS)

    def _sizes(self) -> dict[str, int]:
        """Return the size of each file with data."""
        queues = [name for name in self.folder.names("") if name.startswith(_QUEUE)]
        return {
            f"{queue}/{name}": size
            for queue in queues
            for name, size in self.folder.files(queue).items()
            if name.endswith(_PARQUET) and not _is_hidden(name)
        }

    # Compaction

    def compact(self) -> int:
        """Merge the small files of each queue and day into one. Returns how many were replaced. A
        file that cannot be read, or has a column of another type than most, stays, and is reported.
        Run it while nothing is added."""
        small: dict[str, list[str]] = {}
        sizes = self._sizes()
        with self.folder.locked(name=PLACING) as is_free:
            if not is_free:
                return 0
        for name, size in sorted(sizes.items()):
            if 0 < size < SMALL_FILE_BYTES:  # Spark passes an empty one over, so it stays too.
                small.setdefault(name.rpartition("/")[0], []).append(name)
        return sum(self._compact(partition, names, sizes) for partition, names in small.items())

    def _compact(self, partition: str, names: list[str], sizes: dict[str, int]) -> int:
        if len(names) <= MOST_SMALL_FILES:
            return 0
        job = f"{COMPACTION}{uuid.uuid4()}"
        incoming = _incoming_of(job)
        try:
            files = -(-sum(map(sizes.__getitem__, names)) // _FILE_BYTES)
            frame = read_merged(self._spark, self.folder, names).coalesce(files)
            frame.write.parquet(self.folder.full(f"{incoming}/{partition}"))
        except (PySparkException, Py4JJavaError):
            self.folder.remove(incoming)
            whole = files_to_merge(self._spark, self.folder, names, self._warn)
            if len(whole) == len(names):
                raise
            return self._compact(partition, whole, sizes)
        with self.folder.locked(name=PLACING) as is_free:
            if is_free:
                self.placings.decide(job, self._places(incoming, job), names)
                self.placings.place(job)
                self.placings.forget(job)
                return len(names)
        self.folder.remove(incoming)
        return 0


def _incoming_of(job: str) -> str:
    return f"{INCOMING}/{job}.{uuid.uuid4()}"


def _is_hidden(name: str) -> bool:
    """Return whether readers leave a file out, because a person has set it or its folder aside by
    such a name. Spark reads no row of it: a compaction that replaced it would lose its rows."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _is_of_a_lake(name: str) -> bool:
    return name.startswith((_QUEUE, "_", "."))
