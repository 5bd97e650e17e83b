"""How many messages of each queue are removed on a root, while this looks."""

from __future__ import annotations

from collections import Counter

from mq.ctl.ways.access import Passed
from mq.lifecycle import Folder
from mq.names import parse_file_name
from mq.spool.spool import Spool
from mq.spool.watch import Change, Watch


class Removals:
    """Counts the names that come to the folder `remove`, by file system events; none where the
    system has no more of them to give."""

    def __init__(self, spool: Spool) -> None:
        self._counts: Counter[str] = Counter()
        self._watch: Watch | None = None
        try:
            self._watch = Watch()
            self._watch.add(Folder.REMOVE, str(spool.path(Folder.REMOVE, "")))
        except OSError:
            self.close()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def count(self) -> dict[str, Passed]:
        """Return how many were removed from each queue since this was made."""
        for _, change, names in self._watch.read_last() if self._watch is not None else ():
            # What was reaped at once came too: only the last event of a name is reported.
            for name in names if change in (Change.CAME, Change.WENT) else ():
                parsed = parse_file_name(name)
                self._counts[parsed[0] if parsed is not None else ""] += 1
        return {queue: Passed(0, number) for queue, number in self._counts.items() if queue}
