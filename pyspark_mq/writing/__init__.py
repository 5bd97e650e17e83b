"""Rows as messages: `write` stages and commits them, `write_columns` says what columns they have.

The files that a transaction consists of belong in `mq.spool.spark`, what brings them to servers in
`pyspark_mq.by_url`.
"""
