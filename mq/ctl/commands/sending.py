"""`mqctl send`: publish a message."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from io import BufferedIOBase
from typing import BinaryIO, cast

import click

from mq.command.flags import Seconds
from mq.command.pace import messages_text
from mq.config import MAX_BATCH_BYTES, MAX_DELAY_SECONDS
from mq.ctl.arguments import (
    CONTENT_TYPE,
    ID,
    PROPERTY,
    Source,
    checked_properties,
    queue_argument,
    queues_option,
)
from mq.ctl.commands.transfer import is_published, publish_line, require_queue
from mq.ctl.common_flags import CommonFlags, everywhere, flags_of, opened
from mq.ctl.screen import display
from mq.ctl.screen.progress import ProgressBar, said_when_interrupted
from mq.ctl.ways.access import Access
from mq.errors import BodyTooLarge
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName


@click.command()
@queue_argument
@click.argument("body", required=False)
@click.option("-f", "--file", "file", type=click.File("rb"), help="Send this file; - is stdin.")
@click.option("--content-type", type=CONTENT_TYPE,
              help="What the body is, for example text/plain.")  # fmt: skip
@click.option("--id", "message_id", type=ID,
              help="Publish under this id, once, however often you send it.")  # fmt: skip
@click.option("--delay", "delay_seconds", type=Seconds(0, MAX_DELAY_SECONDS),
              help="Seconds for which it is hidden.  [default: the queue's setting]")  # fmt: skip
@click.option("--property", "properties", type=PROPERTY, multiple=True,
              help="Keep this with the message, such as X-Meta-Shop=north; may be given "
              "again.")  # fmt: skip
@queues_option("--also", "Publish it to this queue as well, to all or to none; for more queues "
               "write commas, or give it again.")  # fmt: skip
@click.option("--batch", "is_batch", is_flag=True,
              help="Publish one message a line, as {\"body\": \"text\"}, all or none.")  # fmt: skip
@click.option("--lines", "is_lines", is_flag=True,
              help="Publish each line as a message.")  # fmt: skip
@everywhere
@click.pass_context
def send(
    context: click.Context,
    *,
    queue: QueueName,
    body: str | None,
    file: BinaryIO | None,
    content_type: str | None,
    message_id: MessageId | None,
    delay_seconds: float | None,
    properties: tuple[tuple[str, str], ...],
    also: tuple[QueueName, ...],
    is_batch: bool,
    is_lines: bool,
) -> None:
    """Publish a message: BODY, a file, or stdin. Prints its id.

    With --lines each line of it is a message; empty ones are passed over.
    """
    flags = flags_of(context)
    given = (content_type, message_id, delay_seconds, properties or None)
    if is_batch and any(each is not None for each in given):
        raise click.UsageError(
            "--content-type, --id, --delay and --property do not go with --batch; give "
            "content_type, id, delay and properties in each line"
        )
    if is_lines and (is_batch or message_id is not None):
        raise click.UsageError("--batch and --id do not go with --lines; use import for both")
    if is_lines and also:
        raise click.UsageError("--also does not go with --lines; use --batch")
    others = [*dict.fromkeys([queue, *also])][1:]
    kept = checked_properties(properties)
    model = Line(b"", message_id, content_type, delay_seconds, kept)
    source = _source(body, file)
    if is_lines:
        _send_lines(flags, queue, source, model)
        return
    with opened(flags) as access:
        if is_batch:
            sent = _send_batch(access, queue, source, others)
        else:
            sent = [(queue, access.publish(queue, Source(source), model, others))]
    _say_ids(flags, sent)


def _source(body: str | None, file: BinaryIO | None) -> BinaryIO:
    """Return where the body is: in the argument, in a file, or else on stdin."""
    if body is not None and file is not None:
        raise click.UsageError("BODY and --file are two bodies; give only one")
    if body is None and file is None and sys.stdin.isatty():
        click.echo("type what to send; Ctrl-D on a line of its own ends it", err=True)
    return io.BytesIO(os.fsencode(body)) if body is not None else file or sys.stdin.buffer


def _send_batch(
    access: Access, queue: QueueName, source: BinaryIO, also: Sequence[QueueName]
) -> list[tuple[QueueName, MessageId]]:
    lines = Source(source).read(MAX_BATCH_BYTES + 1)
    if len(lines) > MAX_BATCH_BYTES:
        raise BodyTooLarge(f"the batch has more than {MAX_BATCH_BYTES} bytes; send several")
    return access.publish_batch(queue, lines, also)


def _send_lines(flags: CommonFlags, queue: QueueName, source: BinaryIO, model: Line) -> None:
    """Publish together the lines that can be read at once, and print their ids after that."""
    from mq.lines.transfer import put_in

    bar, sent = ProgressBar("publishing"), list[MessageId]()

    def publish(line: Line) -> None:
        sent.append(publish_line(access, queue, line))

    def begin(lines: Sequence[Line]) -> Callable[[], bool]:
        end = access.begin_batch(queue, lines)
        return lambda: is_published(lambda: sent.extend(end()))

    def say_published() -> None:
        bar.clear()
        click.echo(f"published {messages_text(bar.done)}", err=True)

    def parse(text: bytes) -> Line:
        return model._replace(body=text)

    with said_when_interrupted(say_published), bar, opened(flags) as access:
        for so_far in put_in(cast(BufferedIOBase, source), publish, begin, parse):
            bar.done = so_far
            _say_ids(flags, [(queue, each) for each in sent])
            sent.clear()
            sys.stdout.flush()
            if not sys.stdout.isatty():
                bar.tell(so_far)
        if not bar.done:
            require_queue(access, queue)
    say_published()


def _say_ids(flags: CommonFlags, sent: Sequence[tuple[QueueName, MessageId]]) -> None:
    for queue, message_id in sent:
        display.say(flags.as_json, {"queue": queue, "id": message_id}, message_id)
