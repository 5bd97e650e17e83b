"""Bring messages from one queue to another.

`move` takes one by its id, and `move_many` those of a request; `redrive` brings dead letters back
to the queues that they died in.

What the mover does belongs in `mq_mover`, and how a message is moved in `mq.spool`.
"""
