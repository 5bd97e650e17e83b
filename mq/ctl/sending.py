"""`mqctl send`: publish a message."""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO

import click

from mq.command.flags import Seconds
from mq.config import MAX_BATCH_BYTES, MAX_DELAY_SECONDS
from mq.ctl import display
from mq.ctl.arguments import (
    ContentTypeParam,
    IdParam,
    PropertyParam,
    QueueParam,
    Source,
    checked_properties,
)
from mq.ctl.settings import everywhere, opened, settings_of
from mq.errors import BodyTooLarge
from mq.names import MessageId, QueueName

_queue = click.argument("queue", type=QueueParam())


@click.command()
@_queue
@click.argument("body", required=False)
@click.option("-f", "--file", "file", type=click.File("rb"), help="Send this file; - is stdin.")
@click.option("--content-type", type=ContentTypeParam(),
              help="What the body is, for example text/plain.")  # fmt: skip
@click.option("--id", "message_id", type=IdParam(),
              help="Publish under this id, once however often you send it.")  # fmt: skip
@click.option("--delay", "delay_seconds", type=Seconds(0, MAX_DELAY_SECONDS),
              help="Seconds for which it is hidden.  [default: the queue's setting]")  # fmt: skip
@click.option("--property", "properties", type=PropertyParam(), multiple=True,
              help="Let it stay with the message, as X-Meta-Shop=north; repeat it.")  # fmt: skip
@click.option("--batch", "is_batch", is_flag=True,
              help="Publish a message a line, as {\"body\": \"text\"}, all or none.")  # fmt: skip
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
    is_batch: bool,
) -> None:
    """Publish a message: BODY, a file, or stdin. Prints its id."""
    settings = settings_of(context)
    given = (content_type, message_id, delay_seconds, properties or None)
    if is_batch and any(each is not None for each in given):
        raise click.UsageError(
            "--content-type, --id, --delay and --property do not go with --batch; give "
            "content_type, id, delay and properties in each line"
        )
    kept = checked_properties(properties)
    if body is not None and file is not None:
        raise click.UsageError("BODY and --file are two bodies; give only one")
    source = io.BytesIO(os.fsencode(body)) if body is not None else file or sys.stdin.buffer
    with opened(settings) as access:
        if is_batch:
            lines = Source(source).read(MAX_BATCH_BYTES + 1)
            if len(lines) > MAX_BATCH_BYTES:
                raise BodyTooLarge(f"the batch has more than {MAX_BATCH_BYTES} bytes; send several")
            ids = access.publish_batch(queue, lines)
        else:
            one = access.publish(
                queue, Source(source), content_type, message_id, delay_seconds, properties=kept
            )
            ids = [one]
    for sent in ids:
        display.say(settings.as_json, {"queue": queue, "id": sent}, sent)
