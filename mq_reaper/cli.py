"""The command line of mq-reaper."""

from __future__ import annotations

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
from mq.config import Address, ReaperConfig
from mq.spool.network_files import files_for
from mq_reaper.reaper import Reaper

log = structlog.get_logger(__name__)

_DEFAULTS = ReaperConfig()


@click.command(name="mq-reaper", cls=Daemon, epilog=exit_codes_text())
@flag("--source", "source", FOLDER, _DEFAULTS.source,
      "The folder of removed messages.", variable="MQ_REAPER_SOURCE")  # fmt: skip
@flag("--keep", "keep", Seconds(0), _DEFAULTS.keep_seconds,
      "Seconds for which a removed message is kept after its removal.")  # fmt: skip
@metrics_flags("MQ_REAPER_METRICS_PORT")
@flag("--log-format", "log_format", click.Choice(LOG_FORMATS), "text",
      "Format of the log on stderr.")  # fmt: skip
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_reaper(source: Path, keep: float, metrics: Address | None, log_format: str) -> None:
    """Unlink removed messages and the folders of deleted queues.

    The reaper follows no link and never leaves its folder. You may stop or kill it at any time.
    """
    configure_logs(log_format, "mq-reaper")
    warn_of_misspelled()
    config = ReaperConfig(source.absolute(), keep)
    exit_even_in_a_wait()
    log.info("configuration", version=__version__, **asdict(config))
    with telling_of_a_wait(config.source, "an answer of its file system"):
        opened = Reaper(config, files_for(config.source))
    with closing(opened) as reaper:
        if metrics is not None:
            from mq.metrics.exposition import reaped, serve_in_thread

            address = serve_in_thread(metrics, partial(reaped, reaper.counts))
            log.info("metrics", url=f"http://{address}/metrics")
        reaper.run()


def main() -> None:
    run(mq_reaper)
