"""Receive messages.

`receive` and `taking` give out those of a queue, under a `lease`. `fetches` calls them from the
event loop; its long polls wait in `waiting`, and `watching` hears what others deliver meanwhile.

What is asked of a message by its id belongs in `mq.store`, what waits in a queue in `index`.
"""
