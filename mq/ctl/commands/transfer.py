"""`mqctl export` and `mqctl import`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from functools import partial
from io import BufferedIOBase
from typing import BinaryIO

import click

from mq.command.pace import messages_text
from mq.config import DEFAULT_CONTENT_TYPE
from mq.ctl.arguments import queue_argument
from mq.ctl.commands.removing import kept_in_the_queue, remove_written
from mq.ctl.common_flags import CommonFlags, everywhere, flags_of, opened
from mq.ctl.screen import display
from mq.ctl.screen.progress import ProgressBar, said_when_interrupted
from mq.ctl.ways.access import Access, QueueCounts, ShownMessage, exit_code_of
from mq.errors import CommandFailed, ExitCode, MQError
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName


@click.command(name="export")
@queue_argument
@click.option("--remove", is_flag=True, help="Take the messages out of the queue: each is "
              "received, written, flushed, and only then removed.")  # fmt: skip
@click.option("-n", "--max", "limit", type=click.IntRange(1),
              help="How many messages at most.  [default: all]")  # fmt: skip
@everywhere
@click.pass_context
def export_queue(context: click.Context, queue: QueueName, remove: bool, limit: int | None) -> None:
    """Write the ready messages to stdout as JSON, oldest first.

    Each is a line. Without --remove they are copied, and nothing is changed.
    """
    from mq.disk.files import Files
    from mq.lines.transfer import TakenOut, flush, take_out

    output = sys.stdout.buffer
    with opened(flags_of(context)) as access:
        counts = access.describe_queue(queue)
        wanted = counts.ready if limit is None else min(limit, counts.ready)
        bar = ProgressBar("exporting", wanted)

        def take() -> TakenOut | None:
            message = access.receive(queue, None)
            if message is None:
                return None
            return TakenOut(_line_of(message), partial(remove_written, access, queue, message))

        def tell(written: int) -> None:
            if sys.stdout.isatty():
                bar.done = written
            else:
                bar.tell(written)

        try:
            with said_when_interrupted(lambda: _say_exported(bar, counts)), bar:
                kept = 0
                if remove:
                    kept = take_out(take, output, limit, tell)
                else:
                    _copy(access, queue, wanted, output, tell)
                    flush(output, Files())
        except MQError as error:
            # If stdout cannot be written, nobody knows how many are in there.
            if bar.done and exit_code_of(error) is not ExitCode.OUTPUT:
                _say_exported(bar, counts)
            raise
        _say_exported(bar, counts)
    if kept:
        raise kept_in_the_queue(kept, bar.done)


def _say_exported(bar: ProgressBar, counts: QueueCounts) -> None:
    """Say on stderr how many messages were exported, and what was left out."""
    bar.clear()
    others = {"leased": counts.leased, "delayed": counts.delayed}
    left_out = " and ".join(f"{number} {state}" for state, number in others.items() if number)
    text = f"exported {messages_text(bar.done)}"
    click.echo(f"{text}; left out {left_out}" if left_out else text, err=True)


@click.command(name="import")
@queue_argument
@click.argument("file", type=click.File("rb"), default="-")
@everywhere
@click.pass_context
def import_queue(context: click.Context, queue: QueueName, file: BufferedIOBase) -> None:
    """Publish each line of FILE, or of stdin, as `export` writes them.

    A line with an id keeps it, so that importing a second time adds nothing.
    """
    from mq.lines.transfer import put_in

    flags = flags_of(context)
    bar = ProgressBar("importing")

    def say_interrupted() -> None:
        bar.clear()
        _say_imported(flags, queue, bar.done)
        click.echo("interrupted; what was under way may be published too", err=True)

    with said_when_interrupted(say_interrupted), bar, opened(flags) as access:
        one, many = partial(publish_line, access, queue), partial(_begin_batch, access, queue)
        for so_far in put_in(file, one, many):
            bar.tell(so_far)
        if not bar.done:
            require_queue(access, queue)
    _say_imported(flags, queue, bar.done)


def _say_imported(flags: CommonFlags, queue: QueueName, imported: int) -> None:
    document = {"queue": queue, "imported": imported}
    display.say(flags.as_json, document, f"imported {messages_text(imported)}")


def _copy(
    access: Access, queue: QueueName, wanted: int, output: BinaryIO, tell: Callable[[int], None]
) -> None:
    """Copy the ready messages. Raises CommandFailed if not all of them could be copied."""
    from mq.lines.transfer import exported

    written, damaged = 0, []
    for message in access.peek(queue, wanted) if wanted else ():
        if message.is_damaged:
            message.body.close()
            damaged.append(message.message_id)
        else:
            output.write(exported(_line_of(message)))
            written += 1
            tell(written)
    if damaged:
        raise CommandFailed(
            ExitCode.UNAVAILABLE,
            f"{messages_text(len(damaged))} left out, damaged; the first is {damaged[0]}; "
            "`mqctl --root ROOT fsck --repair` sets them aside",
        )
    if written < min(wanted, access.describe_queue(queue).ready):
        raise CommandFailed(
            ExitCode.TRY_AGAIN,
            f"only {written} of {wanted} messages were copied, and more are ready; try again, or "
            "use --root with the server's folders, or --remove; fsck names what cannot be read",
        )


def _line_of(message: ShownMessage) -> Line:
    """Return a message as a line. Raises CommandFailed if the body ends early."""
    body = display.whole_body(message)
    usual = message.content_type == DEFAULT_CONTENT_TYPE
    content_type = None if usual else message.content_type
    return Line(body, MessageId(message.message_id), content_type, None, message.properties)


def require_queue(access: Access, queue: QueueName) -> None:
    """Raise what a publish would if there is no such queue. A token that may only publish cannot
    ask: then there is one."""
    try:
        access.describe_queue(queue)
    except MQError as error:
        if exit_code_of(error) is not ExitCode.REFUSED:
            raise


def publish_line(access: Access, queue: QueueName, line: Line) -> MessageId:
    """Publish one line, and return its id. Raises MQError."""
    try:
        return access.publish(queue, io.BytesIO(line.body), line)
    except MQError as error:
        error.args = (f"cannot be published: {error}",)
        raise


def _begin_batch(access: Access, queue: QueueName, lines: Sequence[Line]) -> Callable[[], bool]:
    """Send a batch off. The function that this returns waits for its end, and raises CommandFailed
    if it is unknown whether the lines are published."""
    return partial(is_published, access.begin_batch(queue, lines))


def is_published(end: Callable[[], object]) -> bool:
    """Wait for the end of a batch. Returns False if it was refused: nothing of it is published
    then."""
    try:
        end()
    except MQError as error:
        if exit_code_of(error) is ExitCode.UNAVAILABLE:
            raise
        return False
    return True
