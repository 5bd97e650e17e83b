"""The command vsqspump publishes messages as fast as it can."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import click

from mq import __version__
from mq.command.flags import FOLDER
from mq.command.running import exit_codes_text, run
from mq.command.signals import exit_when_asked
from vsqs.arguments import EXIT_CODES, opened, queue_argument, queue_flags
from vsqs.rate import Rate


@click.command(name="vsqspump", epilog=exit_codes_text(EXIT_CODES))
@click.option("-d", "--dir", "folder", type=FOLDER, default=Path(),
              help="The folder that QUEUE is in.  [default: .]")  # fmt: skip
@click.option("-c", "--capacity", type=click.IntRange(0),
              help="Wait while the queue has this many messages.")  # fmt: skip
@queue_flags
@queue_argument
@click.version_option(__version__, message="%(prog)s %(version)s")
def vsqspump(folder: Path, capacity: int | None, queue: Path, unit: str | None, sync: bool) -> None:
    """Publish 1, 2, 3 and so on until you stop it, and print the rate.

    QUEUE is the path of the queue's folder, which is made if it is missing.
    """
    exit_when_asked()
    rate = Rate()
    with opened(folder / queue, capacity, unit=unit, sync=sync) as open_queue:
        for number in count(1):
            open_queue.publish(str(number).encode())
            rate.count()


def main() -> None:
    run(vsqspump, EXIT_CODES)


if __name__ == "__main__":
    main()
