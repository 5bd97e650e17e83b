"""The six endpoints, each from a checked request to its answer.

`publishing`, `receiving`, `removing` and `queues` are what their names say. Requests to the same
paths also publish `batches`, whose `batch_lines` are read here, or are for `peeking` and `moving`.

Which request goes where belongs in `mq.web.routes`, what is done to messages in `mq.store`.
"""
