"""Move tasks: dead letters go back to their queues, or to another one, at a rate.

`move_tasks` runs them, and goes on with those of a gateway that ended; `move_chunks` moves some
messages at a time; `task_notes` is how far a task has come, as its queue's settings say it.

How one message is moved belongs in `mq.store.moving` and `mq_sqs.fifo.moving`.
"""
