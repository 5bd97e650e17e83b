"""A lake of Parquet files.

`lake` writes files into its `folder` and merges them, and `placing` brings them to their places.
`columns` says which columns it has, `merging` which of its files can be merged, and `checkpoint`
keeps what Spark has written down of the query that fills it.

The jobs that fill and read a lake belong in `pyspark_mq.pipeline`.
"""
