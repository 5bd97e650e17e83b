"""`mq-pipeline`: jobs of Spark as commands, from queues to a lake of Parquet files and back.

archive (`archive`, `lake`), replay and load (`replay`), report (`report`, `page`, `page_file`).
What they share: where the queues are (`places`), the session (`session`), what is told meanwhile
(`progress`).
docs/pipeline.md says what they do. How a job reads and writes queues belongs in `pyspark_mq`.
"""
