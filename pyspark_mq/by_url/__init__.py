"""Queues of a running `mq`, by its url, for jobs that do not see its root.

What comes over HTTP, or is to go there, is kept in a root that belongs to the job: its staging. In
it everything works as it does by root. This package has what leads from there to the servers and
back:

    the staging         `staging`; `committed`: what waits in it to be published; `fetched`: what
                        was left in it on its way in
    in                  `intake` fetches what is to be read, up to its `allowance`
    out                 `forward` publishes what is committed
    to the servers      `servers`: the first that answers

A batch read needs no staging; it belongs in `pyspark_mq.reading`, how a server is asked in
`mq.client`.
"""
