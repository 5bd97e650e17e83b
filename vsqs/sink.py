"""The command vsqssink receives and deletes messages as fast as it can."""

from __future__ import annotations

from pathlib import Path

import click

from mq import __version__
from mq.command.flags import FOLDER
from mq.command.running import exit_codes_text, run
from mq.command.signals import exit_when_asked
from vsqs.arguments import EXIT_CODES, opened, queue_argument, queue_flags
from vsqs.rate import Rate


@click.command(name="vsqssink", epilog=exit_codes_text(EXIT_CODES))
@click.option("-d", "--dir", "folder", type=FOLDER, default=Path(),
              help="The folder that QUEUE is in.  [default: .]")  # fmt: skip
@queue_flags
@queue_argument
@click.version_option(__version__, message="%(prog)s %(version)s")
def vsqssink(folder: Path, queue: Path, unit: str | None, sync: bool) -> None:
    """Receive and delete messages until you stop it. Print the rate, and every message that comes
    before an older one.

    QUEUE is the path of the queue's folder, which is made if it is missing.
    """
    exit_when_asked()
    rate = Rate()
    newest = -1
    with opened(folder / queue, unit=unit, sync=sync) as open_queue:
        while True:
            message_id, _ = open_queue.receive()
            if message_id is None:
                continue
            open_queue.delete(message_id)
            if int(message_id) <= newest:
                print(f"Out-of-order delivery of {message_id} (prev: {newest})", flush=True)
            newest = int(message_id)
            rate.count()


def main() -> None:
    run(vsqssink, EXIT_CODES)


if __name__ == "__main__":
    main()
