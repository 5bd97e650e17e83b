"""`mqctl recv`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from mq.command.flags import Seconds
from mq.command.pace import messages_text
from mq.config import MAX_VISIBILITY_SECONDS, MAX_WAIT_SECONDS
from mq.ctl.arguments import queue_argument, then_option
from mq.ctl.commands.removing import kept_in_the_queue, remove_written
from mq.ctl.common_flags import everywhere, flags_of, opened, raw_option
from mq.ctl.screen import display
from mq.ctl.screen.progress import ProgressBar, said_when_interrupted
from mq.ctl.ways.access import ShownMessage
from mq.errors import ExitCode
from mq.names import QueueName


@click.command()
@queue_argument
@then_option
@click.option("--visibility", "visibility_seconds", help="Seconds until the message returns unless "
              "you acknowledge it.  [default: the queue's setting, or else the server's, with "
              "--root 30]", type=Seconds(0, MAX_VISIBILITY_SECONDS, min_open=True))  # fmt: skip
@click.option("--wait", "wait_seconds", type=Seconds(0, MAX_WAIT_SECONDS), default=0.0,
              help="Seconds to wait for a message if there is none.")  # fmt: skip
@click.option("-n", "--max", "limit", type=click.IntRange(1), default=1, show_default=True,
              help="How many messages to receive at most.")  # fmt: skip
@click.option("--ack", is_flag=True, help="Remove each message for good once its body is "
              "written.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False, readable=False),
              help="Write the body to this file in place of stdout.")  # fmt: skip
@raw_option
@everywhere
@click.pass_context
def recv(
    context: click.Context,
    *,
    queue: QueueName,
    then: tuple[QueueName, ...],
    visibility_seconds: float | None,
    wait_seconds: float,
    limit: int,
    ack: bool,
    output: Path | None,
    raw: bool,
) -> None:
    """Receive the oldest message. Body on stdout, receipt (id, lease, count) on stderr.

    The message is hidden from others until its visibility timeout is over. `ack` removes it for
    good, and so does --ack. Of several messages, a body that does not end with a line break gets
    one.
    """
    from mq.disk.files import Files
    from mq.lines.transfer import flush

    flags = flags_of(context)
    put = _writer(flags.as_json, limit == 1, ack)
    received = kept = 0
    bar = ProgressBar("receiving", limit)
    is_alone = ack and (output is not None or not sys.stdout.isatty())

    def say_removed() -> None:
        bar.clear()
        if ack and limit > 1 and received:
            queues = ", ".join([queue, *then])
            click.echo(f"removed {messages_text(received - kept)} from {queues}", err=True)

    with (
        said_when_interrupted(say_removed),
        bar,
        display.output_to(output, raw) as (write, file),
        opened(flags) as access,
    ):
        while received < limit and (
            message := access.receive(
                queue, visibility_seconds, 0 if received else wait_seconds, then
            )
        ):
            put(message, write)
            if ack:
                flush(file, Files())
                kept += not remove_written(access, message.queue or queue, message)
            received += 1
            if is_alone:
                bar.tell(received)
    say_removed()
    if kept:
        raise kept_in_the_queue(kept, received)
    if not received:
        context.exit(ExitCode.EMPTY)


def _writer(
    as_json: bool, is_one: bool, is_removed: bool
) -> Callable[[ShownMessage, display.Write], None]:
    """Return what writes a message. One that is not removed comes with its receipt."""
    if as_json:
        return display.write_document
    if is_one:
        return display.write_content if is_removed else display.write_body
    return display.write_as_line if is_removed else display.write_receipt_and_line
