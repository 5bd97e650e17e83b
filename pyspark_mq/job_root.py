"""The root that a job works on: that of the queues, or the staging of one direction."""

from __future__ import annotations

from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.spool.network_files import files_for
from mq.spool.root import visit_root
from mq.spool.spool import Spool
from pyspark_mq.options.options import Options


def visit_job_root(options: Options, files: Files | None = None) -> Spool:
    """Open the root that the options name, for Spark's moves. The caller closes it. Raises
    StartRefused."""
    return visit_root(options.root, files or files_for(options.root), Actor.SPARK)
