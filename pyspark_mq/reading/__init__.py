"""Messages as rows: by a batch read, which takes nothing, or a streaming read, which claims them.

    batches       `batch_read` by root, `peek_read` by url
    streams       `stream_read`: a query and its tasks; `driver`: what is claimed, and let go when
                  it is done; `claimers` help with a large claim
    what waits    `backlog`
    for both      `read_columns`; `balance`: the shares of tasks

The files that a claim consists of belong in `mq.spool.spark`, what a stream fetches from servers in
`pyspark_mq.by_url`.
"""
