"""How requests become durable: operations, and who commits them in rounds.

    an operation            `operation`: what it may need; `engine` runs it from need to need
    durable                 `barrier`: the sync of a round; `barrier_thread` passes it beside the
                            next one; `reopening`, after one has failed
    the way to a round      `turns`: what one turn of the event loop asks for; `arrivals`: what no
                            round has taken yet; `awaited`: callers that wait for a future
    rounds                  `rounds`; `pipelined_rounds`: the next gathers while a barrier is in
                            flight; `committer_thread` makes them, and `loop_rounds` on the event
                            loop, while they are light (`light_rounds`); `gathering`: how long one
                            waits, beside other servers
    committers              `group` on stable media, `memory` where nothing is synced, `blocking`
                            without an event loop; `committer`: what the store asks of them

What an operation does to messages belongs in `mq.store`.
"""
