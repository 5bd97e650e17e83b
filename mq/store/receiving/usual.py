"""Lease messages that nothing is unusual about: small, whole and sealed. `lease` does the same for
every message, and takes three times as long."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from mq.disk.calls import Outcome
from mq.disk.status import INODE, MODE, OWNER
from mq.names import MessageId, QueueName
from mq.spool.message.burial import burial_in
from mq.spool.message.held import NO_FD, content_type_of
from mq.spool.message.seal import MAX_RECEIVE_COUNT, SHORT_BYTES, Seal, pack_short
from mq.spool.message.trailer import split
from mq.store.receiving.lease import begin_long_lease
from mq.store.receiving.received_message import Received
from mq.store.shared_state import Workspace

_USUAL_RESULTS = 8
"""How many calls `reading` makes where there are seals."""

_of = tuple.__new__
"""Makes a named tuple of a tuple with all of its fields, in a third of the time that its class
takes."""


class Usual(NamedTuple):
    """A message with nothing unusual about it, under its lock: as it will be received, its packed
    seal then, and what was found at its descriptor."""

    received: Received
    seal: bytes
    fd: int
    status: tuple[Any, ...]


def begin_usual(
    work: Workspace, queue: QueueName, message_id: MessageId, outcome: Outcome, visible_ns: int
) -> Usual | None:
    """Begin a lease of a message that was read, `outcome`; or return None if anything is unusual:
    `take_held` finds out what. A test compares the two. If it fails, the file is closed, and the
    message back in the index."""
    results, code = outcome
    if code or len(results) != _USUAL_RESULTS or work.files.is_of_network:
        return None
    fd, _, status, named, attribute, data, kind, burial = results
    sealed = Seal.unpack(attribute)
    if (
        sealed is None
        or data is None
        or named[INODE] != status[INODE]
        or not stat.S_ISREG(status[MODE])
        or status[OWNER] not in work.files.owners
    ):
        return None
    content = split(sealed, data)
    if content is None:
        return None
    lease, first_ns = work.leases.next(), 0
    count = sealed.receive_count
    count += count < MAX_RECEIVE_COUNT
    if work.spool.has_long_seals or (len(attribute) != SHORT_BYTES and sealed.is_long):
        try:
            fresh = begin_long_lease(work, sealed, lease)
        except BaseException:
            work.files.close(fd)
            work.ready.restore(queue, message_id)
            raise
        first_ns, seal = fresh.first_received_ns, fresh.pack()
    else:
        seal = pack_short(sealed.length, sealed.crc32, sealed.published_ns, count, lease)
    body, properties = content
    about = (
        queue,
        message_id,
        sealed.length,
        sealed,
        None if kind is None else content_type_of(kind),
        lease,
        count,
        sealed.published_ns,
        visible_ns,
        body,
        NO_FD,
        None,
        False,
        properties,
        first_ns,
        None if burial is None else burial_in(burial, queue),
    )
    return _of(Usual, (_of(Received, about), seal, fd, status))


def close_usual(work: Workspace, usual: Sequence[Usual]) -> None:
    """Let go of messages that are not leased after all."""
    for each in usual:
        work.files.close(each.fd)
