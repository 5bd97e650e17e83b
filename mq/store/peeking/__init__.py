"""Look at messages, and change nothing.

`peek` looks at what is ready, `peek_hidden` at what is leased or delayed; each message is a
`peeked_message`.

Counts belong in `mq.store`, and how a client is answered in `mq.web`.
"""
