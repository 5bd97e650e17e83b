"""The jobs that move messages.

`archive` brings them from queues to a lake. `replay` brings them from a lake to a queue, and `load`
brings rows of any files there; both write by `publishing`.

The lake's own files belong in `pyspark_mq.pipeline.lake`.
"""
