"""Reading files as a whole: one that is damaged or gone is an error, and none is left out.

A Spark may be set to pass such files over (`spark.sql.files.ignoreCorruptFiles`). A compaction
would then unlink messages that it has not read, and a replay or load would leave some out. So would
a load of a folder with folders in it: of these Spark reads only what is in its partitions.
"""

from __future__ import annotations

from typing import Any

from pyspark_mq.pipeline.running.causes import JobRefused

_RECURSIVE = "recursiveFileLookup"


def reader_of(spark: Any) -> Any:
    """Return a reader that passes over no file, whatever the session says."""
    return spark.read.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")


def reader_of_folders(spark: Any) -> Any:
    """Return such a reader that reads the folders in a folder too. Their names make no columns."""
    return reader_of(spark).option(_RECURSIVE, "true")


def reader_of_partitions(spark: Any, paths: list[str]) -> Any:
    """Return such a reader that makes columns of folders named NAME=VALUE. Raises JobRefused if
    there are files outside of them, which Spark would leave out; raises what Spark raises."""
    everything = reader_of_folders(spark).format("binaryFile").load(paths)
    if not any("=" in name for name in everything.inputFiles()):
        return reader_of_folders(spark)
    # `inputFiles` of a frame with partitions has those too that it does not read.
    read = reader_of(spark).format("binaryFile").load(paths).select("path")
    left = everything.select("path").subtract(read).sort("path").first()
    if left is not None:
        raise JobRefused(
            f"{left.path} would be left out, because other files are in folders named NAME=VALUE; "
            "move it, or load it by itself. Nothing was published"
        )
    return reader_of(spark)
