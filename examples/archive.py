"""Move messages from queues to a Parquet lake, each once, in folders by queue and day.

    pip install 'mq-server[spark]'
    eval "$(python -m pyspark_mq)"
    spark-submit examples/archive.py ROOT QUEUES LAKE [--continuous]

QUEUES are names and patterns separated by commas. The job ends when what was ready at its start is
in the lake; with --continuous it goes on. The checkpoint is in LAKE.checkpoint: keep both.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, to_date

LONGEST_BATCH = 100_000
"""Messages in a batch: at most this many are read again if the job dies in the middle."""


def main(root: str, queues: str, lake: str, *flags: str) -> None:
    spark = SparkSession.builder.appName(f"archive {queues}").getOrCreate()
    messages = (
        spark.readStream.format("mq")
        .option("root", root)
        .option("queue", queues)
        .option("group", "archive")
        .option("maxMessagesPerTrigger", LONGEST_BATCH)
        .load()
    )
    writer = (
        messages.withColumn("day", to_date(col("published_at")))
        .writeStream.format("parquet")
        .partitionBy("queue", "day")
        .option("path", lake)
        .option("checkpointLocation", f"{lake}.checkpoint")
    )
    if "--continuous" in flags:
        writer = writer.trigger(processingTime="10 seconds")
    else:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(f"usage: {sys.argv[0]} ROOT QUEUES LAKE [--continuous]")
    main(*sys.argv[1:])
