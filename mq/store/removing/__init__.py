"""Remove messages.

`remove` takes one out by its id, `remove_under_lease` only under its lease, and
`remove_many` several of a request. Requests of one round share an operation of `joint_removals`.

What a removed message becomes belongs in `mq_reaper`, how a client is answered in `mq.web`.
"""
