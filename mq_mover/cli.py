"""The command line of mq-mover."""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict
from pathlib import Path

import click
import structlog

from mq import __version__
from mq.command import exit_codes_text, run
from mq.config import MoverConfig
from mq.errors import ExitCode
from mq.logs import LOG_FORMATS, configure_logs
from mq.spool.files import Files
from mq_mover.mover import Mover

log = structlog.get_logger(__name__)


@click.command(name="mq-mover", epilog=exit_codes_text())
@click.option("--source", type=click.Path(path_type=Path), required=True,
              help="The folder to empty, as ROOT/delay.")  # fmt: skip
@click.option("--destination", type=click.Path(path_type=Path), required=True,
              help="Where to: QUEUE:ID goes to QUEUE/ID, another name keeps its name.")  # fmt: skip
@click.option("--delay", type=click.FloatRange(0), default=0.0, show_default=True,
              help="Seconds from a file's arrival until it is moved. "
              "A server's stamp on the file overrides it.")  # fmt: skip
@click.option("--max-receives", type=click.IntRange(0), default=0, show_default=True,
              help="After so many receives a message goes to QUEUE.dead; 0 for never.")  # fmt: skip
@click.option("--log-format", type=click.Choice(LOG_FORMATS), default="text", show_default=True,
              help="Form of the log on stderr.")  # fmt: skip
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_mover(
    source: Path, destination: Path, delay: float, max_receives: int, log_format: str
) -> None:
    """Move messages that are due to their queues.

    What came while no mover ran is found at the start; a mover may be stopped and killed at any
    time. It destroys nothing.
    """
    configure_logs(log_format, "mq-mover")
    config = MoverConfig(source.absolute(), destination.absolute(), delay, max_receives)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(ExitCode.OK))
    log.info("configuration", version=__version__, **asdict(config))
    Mover(config, Files()).run()


def main() -> None:
    run(mq_mover)
