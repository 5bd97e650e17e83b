"""The place of a pipeline's queues: below a root, or at servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mq.lifecycle import Actor
from mq.spool.network_files import files_for
from mq.spool.root import visit_root
from mq.spool.spark.jobs import is_committed
from pyspark_mq.by_url.staging import prepare_staging
from pyspark_mq.options import BATCH_WRITE, parse_options


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place as the options of the source `mq` give it: either `root` or `url`."""

    root: str | None = None
    url: str | None = None
    staging: str | None = None
    token_file: str | None = None
    ca_file: str | None = None

    def options(self, is_staged: bool = True) -> dict[str, str]:
        """Return the options, without the staging if nothing is taken or written."""
        given = {
            "root": self.root,
            "url": self.url,
            "staging": self.staging if is_staged else None,
            "tokenFile": self.token_file,
            "caFile": self.ca_file,
        }
        return {name: value for name, value in given.items() if value is not None}

    def has_written(self, job: str) -> bool:
        """Return whether a write of that name is committed. Raises BadOption, MQError."""
        given = self.options() | {"queue": "any"}
        options = parse_options(given, BATCH_WRITE)
        if options.addresses is not None:
            prepare_staging(options.root, options.addresses.urls)
        spool = visit_root(Path(options.root), files_for(Path(options.root)), Actor.SPARK)
        try:
            return is_committed(spool, job, WRITE_VERSION)
        finally:
            spool.close()


WRITE_VERSION = 1
"""Each name of a replay or load is written once."""
