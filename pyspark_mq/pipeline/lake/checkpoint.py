"""The checkpoint of a lake: what Spark has written down of the query that fills it.

    LAKE/_checkpoint/metadata     the id of the query
    LAKE/_checkpoint/offsets/N    batch N is planned
    LAKE/_checkpoint/commits/N    batch N is done

Spark syncs none of it. The lake does with each batch, before the batch counts. So a power cut costs
at most what was written since: the commit of a batch that is in the lake, and the plan of the next
one. Spark does not start with a file that is torn; and without that commit it asks the source for
the batch again, which has let it go. Both can be told from the lake. The id cannot, and from the
first batch on the group of the source belongs to it. So it is chosen here, durably.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from pyspark_mq.pipeline.lake.folder import LakeFolder

CHECKPOINT = "_checkpoint"
_METADATA = f"{CHECKPOINT}/metadata"
_OFFSETS = f"{CHECKPOINT}/offsets"
_COMMITS = f"{CHECKPOINT}/commits"

_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark writes for a batch of a query that has no state and no watermark."""


def query_id(folder: LakeFolder) -> str:
    """Return the id of the query; the checkpoint exists while it runs. Raises ValueError if it is
    torn."""
    try:
        return str(json.loads(folder.read(_METADATA).splitlines()[0])["id"])
    except LookupError:
        raise ValueError(f"{folder.full(_METADATA)} has no id") from None


def job_of(query: str, batch: int) -> str:
    """Return the name under which the lake knows a batch."""
    return f"{query}-{batch:012}"


def mend_checkpoint(folder: LakeFolder, placed: Iterable[str]) -> None:
    """Bring the checkpoint to where the lake is, and begin one where there is none. `placed` are
    the jobs whose files are in their places. No query runs."""
    if folder.exists(_METADATA):
        _mend(folder, placed)
    if not folder.exists(_METADATA):
        folder.write(_METADATA, json.dumps({"id": str(uuid.uuid4())}))


def _mend(folder: LakeFolder, placed: Iterable[str]) -> None:
    planned, committed = _batches(folder, _OFFSETS), _batches(folder, _COMMITS)
    try:
        query = query_id(folder)
    except ValueError:
        if planned <= {0} and not committed:
            # Nothing of this query is in the lake: its first batch would have brought a sync.
            folder.remove(CHECKPOINT)
        return
    jobs = set(placed)
    known = {batch for batch in planned if job_of(query, batch) in jobs}
    for batch in planned - known - committed:
        if not _is_whole(folder, f"{_OFFSETS}/{batch}"):
            # The source gives the same batch again: it has sealed it, or it claims one now.
            folder.remove(f"{_OFFSETS}/{batch}")
    for batch in known:
        name = f"{_COMMITS}/{batch}"
        if not (batch in committed and _is_whole(folder, name)):
            folder.remove(name)
            folder.write(name, _COMMIT)


def _batches(folder: LakeFolder, name: str) -> set[int]:
    return {int(each) for each in folder.names(name) if each.isdecimal()}


def _is_whole(folder: LakeFolder, name: str) -> bool:
    """Return whether a file of Spark's logs has a version and ends with JSON."""
    try:
        version, *_, last = folder.read(name).splitlines()
        json.loads(last)
    except ValueError:
        return False
    return version.startswith("v")
