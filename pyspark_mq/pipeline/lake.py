"""A lake: Parquet files by queue and day, each message in one of them.

    LAKE/queue=QUEUE/day=YYYY-MM-DD/*.parquet   what readers see
    LAKE/_checkpoint/                           Spark's, of the archive that fills the lake
    LAKE/_incoming/JOB/                         files that are written and not placed yet
    LAKE/_placing/JOB.json                      which of them go where, and what they replace

A batch is written to `_incoming`, synced, and listed in `_placing`. From there on it counts: its
files are renamed to their places, and a crash in between is finished by the next start. A batch
that Spark runs again is placed already and is not written again. Readers take no folder whose name
begins with `_`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark_mq.pipeline.lake_folder import LakeFolder

CHECKPOINT = "_checkpoint"
_INCOMING = "_incoming"
_PLACING = "_placing"
_COMPACTION = "compaction-"

SMALL_FILE_BYTES = 32 * 2**20
MOST_SMALL_FILES = 8
"""With more small files of one queue and day than this, they are made one."""
_FILE_BYTES = 128 * 2**20


class Placing(NamedTuple):
    """The content of a file in `_placing`: files by the places they go to, and files that they
    replace."""

    places: dict[str, str]
    replaced: list[str]

    def to_json(self) -> str:
        return json.dumps({"places": self.places, "replaced": self.replaced}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Placing:
        found = json.loads(text)
        return cls(found["places"], found["replaced"])


class Lake:
    """A lake, for the one archive that fills it."""

    def __init__(self, spark: Any, path: str) -> None:
        self._spark = spark
        self.folder = LakeFolder(spark, path)
        self.folder.make(_PLACING)

    @property
    def checkpoint(self) -> str:
        return self.folder.full(CHECKPOINT)

    def query_id(self) -> str:
        """Return the query's id in Spark's checkpoint, which exists while a query runs."""
        return str(json.loads(self.folder.read(f"{CHECKPOINT}/metadata").splitlines()[0])["id"])

    def add(self, frame: Any, batch: int) -> None:
        """Put the rows of a batch into the lake, durably, and only once however often the batch is
        run."""
        job = f"{self.query_id()}-{batch:012}"
        if not self.folder.exists(f"{_PLACING}/{job}.json"):
            incoming = f"{_INCOMING}/{job}"
            self.folder.remove(incoming)
            writer = frame.write.partitionBy("queue", "day").mode("overwrite")
            writer.parquet(self.folder.full(incoming))
            self._decide(job, self._places(incoming, job), [])
        self._place(job)
        self._forget_before(job)

    def _places(self, incoming: str, job: str) -> dict[str, str]:
        places = {}
        for number, name in enumerate(sorted(_data(self.folder.files(incoming)))):
            partition = name.rpartition("/")[0]
            places[f"{incoming}/{name}"] = f"{partition}/{job}-{number:04}.parquet"
        return places

    def _decide(self, job: str, places: dict[str, str], replaced: list[str]) -> None:
        self.folder.sync()
        self.folder.write(f"{_PLACING}/{job}.json", Placing(places, replaced).to_json())

    def _place(self, job: str) -> None:
        """Place the files of a job, from where that stopped. Files that are replaced go first: for
        a moment a reader misses their rows, but never reads them twice."""
        placing = Placing.from_json(self.folder.read(f"{_PLACING}/{job}.json"))
        for name in placing.replaced:
            self.folder.remove(name)
        for source, target in placing.places.items():
            self.folder.move(source, target)
        self.folder.remove(f"{_INCOMING}/{job}")
        self.folder.sync()

    def _forget_before(self, job: str) -> None:
        """Forget earlier batches: Spark asks again only for its last one."""
        for name in self._placings():
            if name < job and name.rpartition("-")[0] == job.rpartition("-")[0]:
                self.folder.remove(f"{_PLACING}/{name}.json")

    def _placings(self) -> list[str]:
        names = self.folder.names(_PLACING)
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def finish(self) -> None:
        """Bring to their places the files that a crash has left on their way."""
        for job in self._placings():
            self._place(job)
            if job.startswith(_COMPACTION):
                self.folder.remove(f"{_PLACING}/{job}.json")

    # Compaction

    def compact(self) -> int:
        """Make the small files of each queue and day one. Returns how many files were replaced. Run
        it while nothing is added."""
        small: dict[str, list[str]] = {}
        sizes = {name: size for name, size in self.folder.files("").items() if name[:1] != "_"}
        for name in _data(sizes):
            if sizes[name] < SMALL_FILE_BYTES:
                small.setdefault(name.rpartition("/")[0], []).append(name)
        gone = 0
        for partition, names in sorted(small.items()):
            if len(names) > MOST_SMALL_FILES:
                self._compact(partition, sorted(names), sum(map(sizes.__getitem__, names)))
                gone += len(names)
        return gone

    def _compact(self, partition: str, names: list[str], size: int) -> None:
        job = f"{_COMPACTION}{uuid.uuid4()}"
        incoming = f"{_INCOMING}/{job}"
        frame = self._spark.read.option("mergeSchema", "true").parquet(
            *(self.folder.full(name) for name in names)
        )
        frame = frame.coalesce(max(1, -(-size // _FILE_BYTES)))
        frame.write.mode("overwrite").parquet(self.folder.full(f"{incoming}/{partition}"))
        self._decide(job, self._places(incoming, job), names)
        self._place(job)
        self.folder.remove(f"{_PLACING}/{job}.json")


def _data(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.endswith(".parquet")]
