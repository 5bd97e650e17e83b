"""The command line of mq-reaper."""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict
from pathlib import Path

import click
import structlog

from mq import __version__
from mq.command import exit_codes_text, run
from mq.config import ReaperConfig
from mq.errors import ExitCode
from mq.logs import LOG_FORMATS, configure_logs
from mq.spool.files import Files
from mq_reaper.reaper import Reaper

log = structlog.get_logger(__name__)


@click.command(name="mq-reaper", epilog=exit_codes_text())
@click.option("--source", type=click.Path(path_type=Path), default=Path("/tmp/mq/remove"),
              show_default=True, help="The folder of removed messages.")  # fmt: skip
@click.option("--keep", type=click.FloatRange(0), default=0.0, show_default=True,
              help="Seconds a removed message is kept, counted from its removal.")  # fmt: skip
@click.option("--log-format", type=click.Choice(LOG_FORMATS), default="text", show_default=True,
              help="Form of the log on stderr.")  # fmt: skip
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_reaper(source: Path, keep: float, log_format: str) -> None:
    """Unlink removed messages and the folders of deleted queues.

    Follows no link and never leaves its folder. May be stopped and killed at any time.
    """
    configure_logs(log_format, "mq-reaper")
    config = ReaperConfig(source.absolute(), keep)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(ExitCode.OK))
    log.info("configuration", version=__version__, **asdict(config))
    Reaper(config, Files()).run()


def main() -> None:
    run(mq_reaper)
