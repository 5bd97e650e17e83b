"""VSQS: a queue that needs no server. A queue is a folder that processes share.

    for programs            `queue`; `shared`: the open folder, for threads and forked children
    the protocol            `protocol`, `names`, `visibility`; `turn`: the order of publishers
    the folder              `folder`, `opening`, `listing`, `index`; `foreign`: what is there and
                            is not a message; `bell` wakes threads that wait; `limits`
    the arguments           `checks` of programs, `arguments` of commands
    the commands            `cli`, `pump`, `sink`, `rate`, `transfer`

docs/vsqs.md has the protocol, file name by file name. What roots of MQ need does not belong in
here: a folder of VSQS is not part of a root.
"""

from vsqs.queue import Queue, QueueException, QueueFullException

__all__ = ["Queue", "QueueException", "QueueFullException"]
