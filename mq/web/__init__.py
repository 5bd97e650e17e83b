"""The HTTP contract: docs/protocol.md in code.

    from bytes to requests  `http_server`, `connection`, `framing`, `last_chunks`, `head_timer`,
                            `handshakes`, `unread`, `presence`, `lingering`; `quick_connection`
                            and `quick`: the frequent ones without a task; `known_heads`: what
                            was parsed before
    who may ask             `tokens`, `origin_policy`
    the six endpoints       `api`, `routes`; `publishing`, `receiving`, `removing`, `queues`,
                            `moving`, `peeking`
    what is asked           `parameters`, `bodies`, `properties`, `batches`, `batch_lines`
    what is answered        `answers`, `downloads`, `burials`, `problems`; `durations`: how fast

Paths and files do not belong in here, but in `mq.store` and `mq.spool`; the process and its sockets
belong in `mq.daemon`.
"""
