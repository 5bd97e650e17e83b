"""`mqctl purge`: remove a queue's messages and keep the queue."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

import click

from mq.command.pace import messages_text
from mq.ctl.arguments import queue_argument
from mq.ctl.common_flags import CommonFlags, everywhere, flags_of, opened
from mq.ctl.screen import display
from mq.ctl.screen.progress import SILENT_SECONDS, ProgressBar, said_when_interrupted
from mq.ctl.ways.access import Access, QueueCounts
from mq.errors import CommandFailed, ExitCode, MQError
from mq.lifecycle import PurgeScope
from mq.names import QueueName


@click.command("purge")
@queue_argument
@click.option("--ready", is_flag=True, help="Only messages that are ready.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@everywhere
@click.pass_context
def purge(context: click.Context, queue: QueueName, ready: bool, yes: bool) -> None:
    """Remove all messages of a queue, whatever their state.

    The queue stays. Prints how many there were.
    """
    flags = flags_of(context)
    scope = PurgeScope.READY if ready else PurgeScope.ALL
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("purge asks first, but there is no terminal: give --yes")
    with opened(flags) as access:
        if not yes:
            _ask(access.describe_queue(queue), scope)
        with said_when_interrupted(lambda: _say_left(flags, queue)):
            purged = _purge(flags, access, queue, scope)
    document = {"queue": queue, "purged": purged}
    display.say(flags.as_json, document, f"removed {messages_text(purged)} from {queue}")


def _purge(flags: CommonFlags, access: Access, queue: QueueName, scope: PurgeScope) -> int:
    """Purge, and show meanwhile how much of the queue is left, as a second way in counts it."""
    bar = ProgressBar("removing")
    if not bar.is_wanted:
        return access.purge(queue, scope)
    try:
        total = bar.total = access.describe_queue(queue).total
    except CommandFailed:
        # A token that may purge need not be one that may count.
        return access.purge(queue, scope)
    is_over = threading.Event()

    def watch() -> None:
        with suppress(MQError), opened(flags) as beside:
            while not is_over.wait(SILENT_SECONDS):
                bar.tell(max(0, total - beside.describe_queue(queue).total))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        with bar:
            return access.purge(queue, scope)
    finally:
        is_over.set()
        watching.join(SILENT_SECONDS)
        bar.clear()


def _say_left(flags: CommonFlags, queue: QueueName) -> None:
    with suppress(MQError), opened(flags) as access:
        left = access.describe_queue(queue).total
        click.echo(f"interrupted; {queue} has {messages_text(left)} now", err=True)


def _ask(counts: QueueCounts, scope: PurgeScope) -> None:
    is_ready = scope is PurgeScope.READY
    total = counts.ready if is_ready else counts.total
    what = messages_text(total, "ready" if is_ready else "")
    if not click.confirm(f"Remove {what} from queue {counts.queue}?", err=True):
        raise CommandFailed(ExitCode.REFUSED, f"queue {counts.queue} was not purged")
