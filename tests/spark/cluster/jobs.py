"""The commands of mq-pipeline, one after the other, in the Spark that `spark-submit` brings.

jobs.py FOLDER FLAG...: FOLDER has `rows.jsonl`, and gets the lake and the report; the flags say
where the queues `orders` and `again` are. Then it prints on how many executors tasks were done.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pyspark_mq.pipeline.cli import mq_pipeline


def main(folder: str, *place: str) -> None:
    lake = f"--lake={folder}/lake"
    load = ["load", *place, "--to=orders", "--format=json", f"{folder}/rows.jsonl"]
    commands = [
        load,
        ["archive", *place, "--queue=orders", lake, "--batch=700"],
        ["replay", *place, lake, "--to=again"],
        load,
        ["report", *place, "--queue=orders,again", f"--html={folder}/report.html"],
    ]
    for command in commands:
        mq_pipeline.main(command, standalone_mode=False)
    context = SparkSession.builder.getOrCreate().sparkContext
    assert context._jsc is not None
    executors = context._jsc.sc().statusStore().executorList(True)
    working = [
        executors.apply(number).id()
        for number in range(executors.size())
        if executors.apply(number).completedTasks()
    ]
    print(f"executors {','.join(sorted(working))}, master {context.master}")


if __name__ == "__main__":
    main(*sys.argv[1:])
