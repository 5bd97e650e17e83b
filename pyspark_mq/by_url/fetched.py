"""What waits in `delay` of a staging: fetched by a process that may be dead, and perhaps still the
server's."""

from __future__ import annotations

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name
from mq.spool.message.held import fails_its_seal, look_at
from mq.spool.spool import Spool

Fetched = dict[tuple[QueueName, bool], dict[str, str]]
"""The lease of each message by its id; those of one queue that are whole, or not, together."""


def find_fetched(spool: Spool) -> Fetched:
    """Return what waits there. Raises OSError."""
    found: Fetched = {}
    for name in spool.names(Folder.DELAY):
        parsed = parse_file_name(name)
        opened = None if parsed is None else look_at(spool, Folder.DELAY, name)
        if parsed is None or opened is None:
            continue
        with opened:
            # What was not synced may have its whole length, in zeros. A copy may lack the seal.
            is_whole = opened.seal is not None and not fails_its_seal(opened, spool.files)
            leases = found.setdefault((parsed[0], is_whole), {})
            leases[parsed[1]] = f"{opened.lease:016x}"
    return found


def sync_fetched(spool: Spool, fetched: Fetched) -> None:
    """Make these messages durable, which another process may have written. Raises OSError."""
    if spool.files.is_of_network:  # No sync of everything finds what another host has written.
        for (queue, _), leases in fetched.items():
            for each in leases:
                opened = look_at(spool, Folder.DELAY, file_name(queue, MessageId(each)))
                if opened is not None:
                    with opened:
                        spool.files.sync(opened.fd)
    spool.files.sync_file_system(spool.fd(Folder.DELAY))
