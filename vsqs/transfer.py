"""`vsqs export` and `vsqs import`, with the same lines as `mqctl export` and `mqctl import`."""

from __future__ import annotations

import sys
from functools import partial
from io import BufferedIOBase
from pathlib import Path

import click

from mq.command.pace import messages_text
from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode, InvalidRequest, MQError
from mq.lines.ndjson import Line
from mq.lines.transfer import TakenOut, exported, flush, put_in, take_out
from mq.names import MessageId
from vsqs.arguments import opened, queue_argument, queue_flags, require_queue
from vsqs.queue import Queue

_VISIBILITY_SECONDS = 30.0
"""Seconds until a message returns if its export was cut off."""


@click.command(name="export")
@queue_argument
@click.option("--remove", is_flag=True, help="Take the messages out of the queue: each is "
              "received, written, flushed, and only then deleted.")  # fmt: skip
@click.option("-n", "--max", "limit", type=click.IntRange(1),
              help="How many messages at most.  [default: all]")  # fmt: skip
@queue_flags
def export_queue(
    queue: Path, remove: bool, limit: int | None, unit: str | None, sync: bool
) -> None:
    """Write the ready messages to stdout as JSON, oldest first.

    Each is a line. Without --remove they are copied, and nothing is changed.
    """
    require_queue(queue)
    output = sys.stdout.buffer
    with opened(queue, unit=unit, sync=sync) as open_queue:
        if remove:
            take_out(partial(_take, open_queue), output, limit)
            return
        for number, (message_id, body) in enumerate(open_queue.messages(), start=1):
            output.write(exported(Line(body, MessageId(message_id))))
            if number == limit:
                break
        flush(output, Files())


@click.command(name="import")
@queue_argument
@click.argument("file", type=click.File("rb"), default="-")
@queue_flags
def import_queue(queue: Path, file: BufferedIOBase, unit: str | None, sync: bool) -> None:
    """Publish each line of FILE, or of stdin, as `export` writes them.

    Each message gets a new id, and its content type is dropped: there is no place for them.
    """
    imported = 0
    try:
        with opened(queue, unit=unit, sync=sync) as open_queue:
            for so_far in put_in(file, partial(_publish, open_queue), lambda _: lambda: False):
                imported = so_far
    except CommandFailed:
        raise
    except MQError as error:
        raise CommandFailed(ExitCode.REFUSED, str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"imported {messages_text(imported)}")
        raise
    click.echo(f"imported {messages_text(imported)}")


def _take(queue: Queue) -> TakenOut | None:
    message_id, body = queue.receive(_VISIBILITY_SECONDS, timeout=0)
    if message_id is None or body is None:
        return None
    return TakenOut(Line(body, MessageId(message_id)), partial(queue.delete, message_id))


def _publish(queue: Queue, line: Line) -> None:
    if line.delay_seconds:
        raise InvalidRequest("it has a delay, which a VSQS queue does not know")
    if line.properties:
        raise InvalidRequest(
            "it has properties, which a VSQS queue does not keep; take them out of the line to "
            "import it without them"
        )
    queue.publish(line.body)
