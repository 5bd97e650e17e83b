"""The place of a pipeline's queues: below a root, or at servers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from mq.client import Counts
from mq.client import QueueNotFound as NoSuchQueue
from mq.errors import QueueNotFound
from mq.spool.spark.jobs import Job
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import prepare_staging
from pyspark_mq.job_root import visit_job_root
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.options.options import BATCH_WRITE, Options, parse_options
from pyspark_mq.options.queue_patterns import is_pattern
from pyspark_mq.reading.backlog import Backlog
from pyspark_mq.reading.batch_read import existing_queues

WRITE_VERSION = 1
"""Each name of a replay or load is written once."""


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

    def options_for(self, queues: str, allowed: frozenset[str], **more: str) -> Options:
        """Return the parsed options of such a read or write. Raises BadOption."""
        given = self.options("staging" in allowed and "states" not in allowed) | more
        return parse_options(given | ({"queue": queues} if queues else {}), allowed)

    def require_queues(self, queues: str, allowed: frozenset[str], **more: str) -> None:
        """Look whether the queues are there, and whether `more` are options that such a read or
        write takes. Raises what `count_ready` raises."""
        options = self.options_for(queues, allowed, **more)
        if options.addresses is not None:
            with ServerChoice(options.addresses) as servers:
                for queue in options.queues:
                    _counts(servers, queue)
            return
        with closing(visit_job_root(options)) as spool:
            existing_queues(spool, options.queues)

    def count_ready(self, queues: str, allowed: frozenset[str]) -> int:
        """Return how many messages are ready in these queues. Raises BadOption, QueueNotFound for a
        queue that is named and does not exist, StartRefused, and ClientError if no server
        answers."""
        options = self.options_for(queues, allowed)
        if options.addresses is not None:
            with ServerChoice(options.addresses) as servers:
                return sum(_counts(servers, queue).ready for queue in options.queues)
        with closing(visit_job_root(options)) as spool:
            existing_queues(spool, options.queues)
            return Backlog(spool, options.queues).count()

    def require_target(self, queue: str) -> None:
        """Raise unless this is one queue that exists and that Spark may write to: BadOption,
        QueueNotFound, and what `count_ready` raises."""
        if not queue.strip() or "," in queue or is_pattern(queue):
            raise BadOption(f"--to {queue!r}: name one queue")
        self.require_queues(queue, BATCH_WRITE)

    def has_written(self, name: str) -> bool:
        """Return whether a write of that name is committed. Raises BadOption, MQError."""
        options = self.options_for("any", BATCH_WRITE)
        if options.addresses is not None:
            prepare_staging(options.root, options.addresses.urls)
        with closing(visit_job_root(options)) as spool:
            return Job(spool, name).is_committed(WRITE_VERSION)


def _counts(servers: ServerChoice, queue: str) -> Counts:
    try:
        return servers.counts(queue)
    except NoSuchQueue as error:
        raise QueueNotFound(str(error)) from None
