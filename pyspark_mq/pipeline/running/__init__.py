"""A job while it runs: `progress` shows how far it is, `stopping` ends it, and `causes` says why it
failed.

What it does belongs in `pyspark_mq.pipeline.jobs`, `report` and `lake`.
"""
