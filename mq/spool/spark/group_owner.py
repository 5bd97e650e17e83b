"""The query that a group of claims belongs to, as `query.ID.N` says."""

from __future__ import annotations

from typing import NamedTuple

NOBODY = "none"
"""The query of a group that nobody has read with."""

UNNAMED = "unnamed"
"""The query of tasks that are not told which one they work for. Spark tells it to the tasks of a
query's own thread, and not to those that a program starts from other threads in `foreachBatch`, nor
to any of `foreachBatch` by Spark Connect."""

NEW_FOLDER = (
    "Spark's file sinks need a new folder then, or they skip batches whose numbers they have"
)
"""What a new checkpoint means for some sinks: it counts batches from 0 again."""


class Owner(NamedTuple):
    """The query that a group belongs to, and the batch after which the query began."""

    query: str
    start: int

    def admits(self, asking: Owner) -> bool:
        """Return whether tasks of that query may read. Those that do not know their query may, once
        the group has an owner: their driver has been asked then."""
        if asking.query == UNNAMED:
            return self.query != NOBODY
        return self.query == asking.query

    def is_known(self) -> bool:
        return self.query not in (NOBODY, UNNAMED)
