"""FIFO queues: order within a group of messages, and deduplication.

On disk a FIFO queue is a queue like any other, and its messages go the way of any other. What no
folder says is which of them may be received next. That is kept in memory, read from the files when
a queue is first used, and changed by the committer alone.

    in memory               `groups`: which messages may be received, in which order;
                            `deduplication`: what was sent within the last five minutes;
                            `fifo_queue`: both, in step with the index of the queue's folder
    from the files          `loading`, `elsewhere`, `using`; `ownership`: one process has all FIFO
                            queues
    what clients ask for    `sending` with `publishing`, `receiving`, `receipts`, `moving`;
                            `service`: all of it for the event loop; `parameters`, `attributes`:
                            what they may say
    what was answered       `attempts`: to a receive that may be asked again
    what others do          `in_flight`: to messages that are hidden

How a message is published, leased or removed belongs in `mq.store`; what a call is and what it is
answered, in `mq_sqs.operations`.
"""
