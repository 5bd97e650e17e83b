"""The files of a lake on their way to their places.

A batch or a compaction counts once its file in `_placing` lists where its files go, and what they
replace. They are renamed then, and a crash in between is finished by the next start. That of a
batch stays, because Spark may ask for the batch again; that of a compaction goes.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from mq.errors import MQError
from pyspark_mq.pipeline.lake.folder import LakeFolder

INCOMING = "_incoming"
PLACING = "_placing"
COMPACTION = "compaction-"
"""Begins the name of a compaction; that of a batch begins with its query."""


class LakeDamaged(MQError):
    """A file that says what belongs to the lake cannot be read."""


class Placing(NamedTuple):
    """The content of a file in `_placing`: files by the places they go to, and files that they
    replace."""

    places: dict[str, str]
    replaced: list[str]

    def to_json(self) -> str:
        return json.dumps({"places": self.places, "replaced": self.replaced}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Placing:
        """Read what `to_json` has written. Raises ValueError."""
        found = json.loads(text)
        try:
            return cls(dict(found["places"]), list(found["replaced"]))
        except (TypeError, LookupError) as error:
            raise ValueError(f"not a placing: {error}") from None


class Placings:
    """What is decided about the files of a lake, by jobs: batches and compactions."""

    def __init__(self, folder: LakeFolder) -> None:
        self._folder = folder

    def jobs(self) -> list[str]:
        names = self._folder.names(PLACING)
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def has(self, job: str) -> bool:
        return self._folder.exists(_file_of(job))

    def are_compacting(self) -> bool:
        """Return whether files of a compaction may be on their way."""
        return any(job.startswith(COMPACTION) for job in self.jobs())

    def decide(self, job: str, places: dict[str, str], replaced: list[str]) -> None:
        """Let these files count from now on, durably: they are synced before the list of them gets
        its name."""
        self._folder.write(_file_of(job), Placing(places, replaced).to_json())

    def place(self, job: str) -> None:
        """Place the files of a job, from where that stopped. Files that are replaced go first: for
        a moment a reader misses their rows, but never reads them twice."""
        placing = self._read(job)
        for name in placing.replaced:
            self._folder.remove(name)
        for source, target in placing.places.items():
            self._folder.move(source, target)
        for incoming in {"/".join(source.split("/")[:2]) for source in placing.places}:
            self._folder.remove(incoming)
        self._folder.sync()

    def place_all(self) -> None:
        for job in self.jobs():
            self.place(job)
            if job.startswith(COMPACTION):
                self.forget(job)

    def are_on_their_way(self) -> bool:
        """Return whether files may not be in their places. If all are, a reader changes nothing:
        its lake may be read-only."""
        return any(map(self._is_on_its_way, self.jobs()))

    def _is_on_its_way(self, job: str) -> bool:
        return job.startswith(COMPACTION) or any(map(self._folder.exists, self._read(job).places))

    def forget_before(self, job: str) -> None:
        """Forget earlier batches: Spark asks again only for its last one."""
        for name in self.jobs():
            if name < job and name.rpartition("-")[0] == job.rpartition("-")[0]:
                self.forget(name)

    def forget(self, job: str) -> None:
        self._folder.remove(_file_of(job))

    def _read(self, job: str) -> Placing:
        name = _file_of(job)
        try:
            return Placing.from_json(self._folder.read(name))
        except ValueError:
            raise LakeDamaged(
                f"{self._folder.full(name)} is damaged, and does not tell which files of "
                f"{INCOMING} belong to the lake: look at both, move what counts to its place, then "
                "the file away"
            ) from None


def _file_of(job: str) -> str:
    return f"{PLACING}/{job}.json"
