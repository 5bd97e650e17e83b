"""Publish messages.

`publish` is for one message, `publish_each` for those of several requests, `own_id` for one under
an id of its producer, whose message `twins` finds if it exists already; `delivering` moves them on
to their queues. `batch` publishes a batch and delivers it, to the queues that `readers` finds;
`filling` fills its set, with `parts` for each of its queues, and `handing_over` removes a message
in the same step. `copies` publishes what several requests have for the same queues in one batch.
`publisher` calls all of them from the event loop.

How a message is written belongs in `mq.spool.message`, how a client is answered in `mq.web`.
"""
