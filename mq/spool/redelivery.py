"""Redelivery: a message that is due, or released, goes back to its queue or to the dead letters.
The mover and the server do it."""

from __future__ import annotations

from mq.lifecycle import Folder
from mq.names import QueueName, parse_file_name
from mq.spool.message.burial import bury
from mq.spool.message.held import Held
from mq.spool.moves import Moves, OpenFolder
from mq.spool.open_queues import OpenQueues
from mq.spool.queue.queue_settings import NO_DEAD_LETTERS, DeadLetterRule
from mq.spool.queue.queues import has_queue, make_queue


def redeliver(
    moves: Moves,
    held: Held,
    source: OpenFolder,
    queues: OpenQueues,
    rule: DeadLetterRule = NO_DEAD_LETTERS,
) -> QueueName | None:
    """Move a message `QUEUE:ID` of `source` to its queue or to the dead letters, and return which
    queue it is in now.

    A message that was received as often as `rule` says goes to the queue that the rule names, which
    is made if it is missing, and says from then on where it came from.

    Returns None if the message stays where it is: it is gone, or its queue is. Raises
    FileExistsError if the queue has another file of that name; nothing is replaced. Raises
    BlockingIOError while another process has that queue to itself, or makes a queue if one is
    needed for dead letters.
    """
    parsed = parse_file_name(held.name)
    assert parsed is not None
    queue, message_id = parsed
    dead = rule.queue if 0 < rule.max_receives <= held.receive_count else None
    if dead is not None and has_queue(moves.files, queues.fd, queue):
        make_queue(moves.files, queues.fd, dead)
        bury(moves.files, held.fd, queue)
        queue = dead
    try:
        with queues.shared(queue) as opened:
            moves.rename(source, held.name, OpenFolder(Folder.QUEUES, opened.fd), message_id)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return queue
