"""An application that is killed: from the queue `orders` to a lake, or to the queue `copies`.

application.py lake|copy ROOT|URL FOLDER LIMIT

By url its staging is in FOLDER. A lease of what it had fetched ends after 5 s.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import pyspark_mq
from tests.support.packages import JAVA_OPTIONS


def main(kind: str, place: str, folder: str, limit: str) -> None:
    given = {"root": place}
    if place.startswith("http"):
        given = {"url": place, "staging": f"{folder}/staging"}
    reading = given | ({"visibilitySeconds": "5"} if "url" in given else {})
    pyspark_mq.prepare()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    Path(folder, "started").touch()
    source = spark.readStream.format("mq").options(**reading).option("queue", "orders")
    frame = source.option("group", "lake").option("maxMessagesPerTrigger", limit).load()
    if kind == "lake":
        sink = frame.writeStream.format("parquet").option("path", f"{folder}/lake")
    else:
        sink = frame.select("value").writeStream.format("mq").options(**given)
        sink = sink.option("queue", "copies")
    sink = sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    sink.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
