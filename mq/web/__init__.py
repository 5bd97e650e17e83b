"""The HTTP contract: docs/protocol.md in code.

    from bytes to requests  `connections`
    who may ask             `tokens`, `origin_policy`
    the six endpoints       `api`, `routes`, `endpoints`; `quick`: frequent requests without a task;
                            `standing_in_line`: those that wait
    what is asked           `parameters`, `bodies`, `properties`
    what is answered        `answers`, `downloads`, `burials`, `problems`; `durations`: how fast

Paths and files do not belong in here, but in `mq.store` and `mq.spool`; the process and its sockets
belong in `mq.daemon`.
"""
