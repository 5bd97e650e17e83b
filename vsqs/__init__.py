"""VSQS: a queue that needs no server. A queue is a folder that processes share.

`docs/vsqs.md` has the protocol, file name by file name.
"""

from vsqs.queue import Queue, QueueException, QueueFullException

__all__ = ["Queue", "QueueException", "QueueFullException"]
