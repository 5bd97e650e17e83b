"""Where a message is: in every place that a message of some id can be in, even if it moves during
the search."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.folders import Spool
from mq.spool.sets import OPEN_SUFFIX, parse_batch_name
from mq.spool.spark.finished import CLAIMS, DoneBatches, folders_in

_ON_ITS_WAY = 3
"""A receive and a redelivery may pass between two looks, again and again."""


class Finder:
    """Looks for messages of one queue, and for its dead letters.

    The sealed batches in `new` are listed when it is made, so its maker must hold the locks of the
    ids that it will look for: from then on they are not published, and a message that is not in
    `new` yet does not get there. All else is looked at for each id.
    """

    def __init__(
        self, spool: Spool, done: DoneBatches, queue: QueueName, dead_letters: Iterable[QueueName]
    ) -> None:
        """`dead_letters` are the queues that its dead letters may be in. Raises OSError."""
        self._root, self._done = f"{spool.root}", done
        self._flat = f"{queue}:"
        ready, delayed = f"{Folder.QUEUES}/{queue}/", f"{Folder.DELAY}/{queue}:"
        self._first = [
            f"{Folder.NEW}/{queue}:",
            *(f"{Folder.NEW}/{batch}/{queue}:" for batch in sealed_batches(spool, queue)),
            *(ready, delayed) * _ON_ITS_WAY,
        ]
        self._dead_letters = list(dead_letters)
        # A claim that was given back, a dead letter that got another try; then the end of the way.
        self._last = [ready, delayed, f"{Folder.REMOVE}/{queue}:"]

    def find(self, message_id: MessageId) -> Iterator[str]:
        """The paths from the root on, in the order of its way, at which there is a message of that
        id. Looks at each place when it is asked for the next path. Raises OSError."""
        yield from self._existing(self._first, message_id)
        yield from self._taken(self._flat + message_id)
        for dead in self._dead_letters:
            ready, flat = f"{Folder.QUEUES}/{dead}/", f"{dead}:"
            if os.access(f"{self._root}/{ready}", os.F_OK):
                delayed = f"{Folder.DELAY}/{flat}"
                yield from self._existing([ready, delayed, ready], message_id)
            yield from self._taken(flat + message_id)
            yield from self._existing([ready, f"{Folder.REMOVE}/{flat}"], message_id)
        yield from self._existing(self._last, message_id)

    def _existing(self, heads: Sequence[str], message_id: MessageId) -> Iterator[str]:
        for head in heads:
            # Takes half the time of lexists(), because a missing place does not raise. Links do not
            # count.
            if os.access(f"{self._root}/{head}{message_id}", os.F_OK):
                yield head + message_id

    def _taken(self, flat: str) -> Iterator[str]:
        """Where Spark queries have it, or had it."""
        groups = folders_in(self._root, CLAIMS)
        for places in (self._claims(groups, flat), self._done.paths(flat, groups)):
            for path in places:
                if os.access(f"{self._root}/{path}", os.F_OK):
                    yield path

    def _claims(self, groups: Iterable[str], flat: str) -> Iterator[str]:
        """In the sets that are claimed: `GROUP/CLAIM/QUEUE:ID`, or a level deeper."""
        for group in groups:
            for claim in folders_in(self._root, group):
                yield f"{claim}/{flat}"
                for part in folders_in(self._root, claim):
                    yield f"{part}/{flat}"


def sealed_batches(spool: Spool, queue: QueueName) -> list[str]:
    """Usually there is none, and the number of links of `new` says so, where it counts folders."""
    if os.fstat(spool.fd(Folder.NEW)).st_nlink == 2:
        return []
    return [
        name
        for name in spool.names(Folder.NEW)
        if not name.endswith(OPEN_SUFFIX)
        and (batch := parse_batch_name(name)) is not None
        and batch.queue == queue
    ]
