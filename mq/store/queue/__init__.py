"""What concerns a whole queue.

`queues` makes, deletes and counts them; `settings` has what a queue says of its messages. `purge`
removes all of these, and `expiry` those that are too old.

What the folder of a queue is belongs in `mq.spool.queue`, what a server remembers of it in `index`.
"""
