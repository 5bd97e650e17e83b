"""What a server remembers of its folders: a cache, which only ever saves it from listing them.

`ready_queues` and `ready_queue` have what waits, in the order of `sorted_keys`. Operations, and
what decides what becomes of a message, belong in `mq.store`; how a folder is listed belongs in
`mq.spool.queue`.
"""
