"""What waits in the queues, how long, and what has died.

`report` counts it, `page` shows it, and `page_file` puts the page in its place.

How messages are looked at belongs in `pyspark_mq.reading`.
"""
