"""The command line of vsqs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import BinaryIO

import click

from mq import __version__
from mq.command.flags import Seconds
from mq.command.running import exit_codes_text, run
from mq.command.stdout import written_to_stdout
from mq.config import MIB
from mq.errors import CommandFailed, ExitCode
from mq.lines.ndjson import body_member
from vsqs.arguments import EXIT_CODES, opened, queue_argument, queue_flags, require_queue
from vsqs.foreign import MAX_BODY_BYTES
from vsqs.names import parse_id
from vsqs.transfer import export_queue, import_queue

_PIECE_BYTES = MIB


@click.group(name="vsqs", epilog=exit_codes_text(EXIT_CODES))
@click.version_option(__version__, message="%(prog)s %(version)s")
def vsqs() -> None:
    """Use a queue that needs no server: a folder that processes share.

    QUEUE is the path of the folder.
    """


@vsqs.command()
@queue_argument
@click.argument("body", required=False)
@click.option("-f", "--file", "file", type=click.File("rb"), help="Send this file; - is stdin.")
@click.option("-c", "--capacity", type=click.IntRange(0),
              help="Wait while the queue has this many messages.")  # fmt: skip
@click.option("--timeout", type=Seconds(0), help="Seconds to wait at most.  [default: no limit]")
@queue_flags
def publish(
    queue: Path,
    *,
    body: str | None,
    file: BinaryIO | None,
    capacity: int | None,
    timeout: float | None,
    unit: str | None,
    sync: bool,
) -> None:
    """Publish a message: BODY, a file, or stdin. Prints its id.

    The queue is made if it is missing.
    """
    if body is not None and file is not None:
        raise click.UsageError("BODY and --file are two bodies; give only one")
    data = os.fsencode(body) if body is not None else _read_body(file or sys.stdin.buffer)
    with opened(queue, capacity, unit=unit, sync=sync) as open_queue:
        click.echo(open_queue.publish(data, timeout))


def _read_body(file: BinaryIO) -> bytearray:
    """Read a message to its end, which may never come. Raises CommandFailed."""
    body = bytearray()
    try:
        while piece := file.read(_PIECE_BYTES):
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise CommandFailed(
                    ExitCode.REFUSED,
                    f"the body has more than {MAX_BODY_BYTES} bytes, the most that is accepted",
                )
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"the body cannot be read: {error.strerror or error}"
        ) from error
    return body


@vsqs.command()
@queue_argument
@click.option("--visibility", type=Seconds(0), default=10.0, show_default=True,
              help="Seconds until the message returns unless you delete it.")  # fmt: skip
@click.option("--timeout", type=Seconds(0), default=0.0, show_default=True,
              help="Seconds to wait for a message.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--raw", is_flag=True, help="Write control characters of a body to a terminal too.")
@queue_flags
def receive(
    queue: Path,
    *,
    visibility: float,
    timeout: float,
    as_json: bool,
    raw: bool,
    unit: str | None,
    sync: bool,
) -> None:
    """Receive the oldest message: body on stdout, id on stderr."""
    require_queue(queue)
    with opened(queue, unit=unit, sync=sync) as open_queue:
        message_id, body = open_queue.receive(visibility, timeout)
    if message_id is None or body is None:
        click.get_current_context().exit(ExitCode.EMPTY)
    if as_json:
        click.echo(json.dumps({"id": message_id} | body_member(body)))
    else:
        click.echo(f"id={message_id}", err=True)
        with written_to_stdout(raw) as write:
            write(body)


@vsqs.command()
@queue_argument
@click.argument("message_id", metavar="ID")
@queue_flags
def delete(queue: Path, message_id: str, unit: str | None, sync: bool) -> None:
    """Delete a message for good, whatever its state."""
    require_queue(queue)
    if parse_id(message_id) is None:
        raise click.UsageError(f"{message_id!r} is not a message id; publish and receive print ids")
    with opened(queue, unit=unit, sync=sync) as open_queue:
        if not open_queue.delete(message_id):
            raise CommandFailed(ExitCode.NOT_FOUND, f"queue {queue} has no message {message_id}")


@vsqs.command()
@queue_argument
@queue_flags
def size(queue: Path, unit: str | None, sync: bool) -> None:
    """Count the messages, ready and consumed."""
    require_queue(queue)
    with opened(queue, unit=unit, sync=sync) as open_queue:
        click.echo(open_queue.size())


vsqs.add_command(export_queue)
vsqs.add_command(import_queue)


def main() -> None:
    run(vsqs, EXIT_CODES)
