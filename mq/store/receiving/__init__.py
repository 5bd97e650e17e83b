"""Receive messages.

`receive` takes those of a queue, the `oldest` that its index knows; `taking` takes one under a
`lease`, which `usual` makes in a third of the time where nothing is unusual; each is a
`received_message`, which `put_back` brings back if its receiver never gets it. `receives` calls
them from the event loop; one that may wait is a `long_receive`, in line in `waiting`, and
`watching` hears what others deliver meanwhile. Requests that do not wait are served together by
`joint_receives`, those for several queues by `lease_each`.

What is asked of a message by its id belongs in `mq.store`, what waits in a queue in `index`.
"""
