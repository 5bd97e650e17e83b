"""Bring messages from one queue to another.

`move` moves one message; `move_many` moves the oldest of a queue, or those with given ids;
`redrive` brings dead letters back to the queues that they died in.

What the mover does belongs in `mq_mover`, and how a message is moved in `mq.spool`.
"""
