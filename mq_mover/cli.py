"""The command line of mq-mover."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
import structlog

from mq import __version__
from mq.command.flags import FOLDER, Daemon, Seconds, flag, metrics_flags
from mq.command.logs import LOG_FORMATS, configure_logs
from mq.command.running import exit_codes_text, run
from mq.command.signals import exit_even_in_a_wait
from mq.command.variables import warn_of_misspelled
from mq.command.waits import telling_of_a_wait
from mq.config import Address, MoverConfig
from mq.spool.network_files import files_for
from mq_mover.mover import Mover

log = structlog.get_logger(__name__)

_DEFAULTS = MoverConfig(source=Path(), destination=Path())


@click.command(name="mq-mover", cls=Daemon, epilog=exit_codes_text())
@flag("--source", "source", FOLDER, None,
      "The folder to empty, as ROOT/delay.", variable="MQ_MOVER_SOURCE", required=True)  # fmt: skip
@flag("--destination", "destination", FOLDER, None,
      "The folder to move files to: QUEUE:ID goes to QUEUE/ID, a name without a colon keeps its "
      "name.",
      variable="MQ_MOVER_DESTINATION", required=True)  # fmt: skip
@flag("--delay", "delay", Seconds(0), _DEFAULTS.delay_seconds,
      "Seconds from a file's arrival until it is moved. "
      "A stamp that a server set on the file overrides it.", variable="MQ_MOVER_DELAY")  # fmt: skip
@flag("--max-receives", "max_receives", click.IntRange(0), _DEFAULTS.max_receives,
      "After this many receives a message goes to QUEUE.dead; 0 for never.")  # fmt: skip
@metrics_flags("MQ_MOVER_METRICS_PORT")
@flag("--log-format", "log_format", click.Choice(LOG_FORMATS), "text",
      "Format of the log on stderr.")  # fmt: skip
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_mover(
    *,
    source: Path,
    destination: Path,
    delay: float,
    max_receives: int,
    metrics: Address | None,
    log_format: str,
) -> None:
    """Move messages that are due to their queues.

    When it starts, the mover finds everything that came while no mover ran. You may stop or kill it
    at any time. It destroys nothing.
    """
    configure_logs(log_format, "mq-mover")
    warn_of_misspelled()
    config = MoverConfig(source.absolute(), destination.absolute(), delay, max_receives)
    exit_even_in_a_wait()
    log.info("configuration", version=__version__, **asdict(config))
    with telling_of_a_wait(config.source, "an answer of its file system"):
        opened = Mover(config, files_for(config.source))
    with closing(opened) as mover:
        # A dead letter queue is made with the mode of the other queues.
        os.umask(0o777 & ~os.stat(config.destination).st_mode)
        if metrics is not None:
            from mq.metrics.exposition import serve_in_thread
            from mq_mover.metrics import mover_metrics

            address = serve_in_thread(metrics, partial(mover_metrics, mover.counts))
            log.info("metrics", url=f"http://{address}/metrics")
        mover.run()


def main() -> None:
    run(mq_mover)
