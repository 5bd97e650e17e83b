"""The entry point of `python -m pyspark_mq.pipeline`, and the file that `spark-submit` runs."""

from __future__ import annotations

from pyspark_mq.pipeline.cli import main

if __name__ == "__main__":
    main()
