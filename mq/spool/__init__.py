"""The files and folders of a root, as plain blocking functions that all processes share.

    a root              `root` makes and opens one; `root_format`, `file_system`, `locks` and
                        `trouble` say whether it can be used; `abilities` tries the file system;
                        `network_files` changes files where other hosts work too
    its folders         `spool` holds them open, `open_queues` those of the queues; `moves` asks
                        the table before each move; `watch` hears of changes
    a message           `message`: its lock, and what its file says; `finder` finds it by its id
    a queue             `queue`: made, deleted, looked into, emptied; its settings
    sets of messages    `sets`, which `rolling` brings to their places; `batch_names` in `new`;
                        `handovers` take a message along; `removed_folders` in `remove`
    between places      `redelivery` and, after a crash, `sweep`; `leftovers` of one queue
    errors              `disk_errors`: whether one concerns a message, a queue, or all

`spark` has what only Spark's source and sink use. What a request asks for belongs in `mq.store`,
a file call by itself in `mq.disk`; HTTP and asyncio do not belong in here.
"""
