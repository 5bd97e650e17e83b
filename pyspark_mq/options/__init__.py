"""The options that a read or write is given, parsed.

`options` has all of them, `option_values` what one may be. `queue_patterns` names queues, and
`addresses` servers.

What is read and written with them belongs in `pyspark_mq.reading` and `pyspark_mq.writing`.
"""
