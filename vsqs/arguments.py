"""What the command lines share: the queue, its flags, and errors of the disk as one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from mq.command.flags import FOLDER
from mq.errors import CommandFailed, ExitCode
from vsqs.names import UNITS_PER_SECOND
from vsqs.queue import Queue, QueueException, QueueFullException

F = TypeVar("F", bound=Callable[..., Any])

EXIT_CODES = {
    ExitCode.OK: "done, or stopped as asked",
    ExitCode.USAGE: "a flag or argument is wrong",
    ExitCode.EMPTY: "empty: there is no message",
    ExitCode.NOT_FOUND: "no such queue or message",
    ExitCode.REFUSED: "refused: a line of an import is wrong, or a message is longer than 1 GiB",
    ExitCode.SOFTWARE: "a defect: please report it",
    ExitCode.SYSTEM: "this system lacks something VSQS needs",
    ExitCode.ROOT: "the queue's folder cannot be made, read or written",
    ExitCode.OUTPUT: "stdout cannot be written",
    ExitCode.TRY_AGAIN: "the queue is full: try again",
}
"""What `--help` says about each exit code. The numbers mean the same in `mqctl`."""

queue_argument = click.argument("queue", type=FOLDER)


def queue_flags(command: F) -> F:
    """Give a command the flags --unit and --no-sync."""
    for option in (
        click.option("--no-sync", "sync", flag_value=False, default=True,
                     help="Do not wait for stable media: a power cut may lose messages."),
        click.option("--unit", type=click.Choice(list(UNITS_PER_SECOND)),
                     help="Unit of the times in file names; us is that of the released vsqs 0.3.  "
                     "[default: that of the folder, or ms]"),
    ):  # fmt: skip
        command = option(command)
    return command


@contextmanager
def opened(path: Path, capacity: int | None = None, **flags: Any) -> Iterator[Queue]:
    """Open a queue, and make it if it is missing. Errors become CommandFailed; a warning becomes a
    line."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            queue = Queue(path, capacity, **flags)
        for warning in caught:
            click.echo(f"warning: {warning.message}", err=True)
        with queue:
            yield queue
    except QueueFullException as error:
        raise CommandFailed(ExitCode.TRY_AGAIN, str(error)) from error
    except QueueException as error:
        raise CommandFailed(ExitCode.REFUSED, str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _of_the_disk(path, error) from error


def require_queue(path: Path) -> None:
    """Raise CommandFailed if the queue does not exist, for commands that make no sense without
    it."""
    try:
        is_there = path.exists()
    except OSError as error:
        raise _of_the_disk(path, error) from error
    if not is_there:
        raise CommandFailed(
            ExitCode.NOT_FOUND, f"there is no queue {path}; `vsqs publish` makes one"
        )


def _of_the_disk(path: Path, error: OSError) -> CommandFailed:
    place = path if error.filename is None else error.filename
    return CommandFailed(ExitCode.ROOT, f"queue {path}: {error.strerror or error}: {place}")
