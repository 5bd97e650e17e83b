"""`mqctl purge`: remove a queue's messages and keep the queue."""

from __future__ import annotations

import sys

import click

from mq.ctl import display
from mq.ctl.access import QueueCounts
from mq.ctl.arguments import QueueParam
from mq.ctl.settings import everywhere, opened, settings_of
from mq.errors import CommandFailed, ExitCode
from mq.lifecycle import PurgeScope
from mq.names import QueueName


@click.command("purge")
@click.argument("queue", type=QueueParam())
@click.option("--ready", is_flag=True, help="Only messages that are ready.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@everywhere
@click.pass_context
def purge(context: click.Context, queue: QueueName, ready: bool, yes: bool) -> None:
    """Remove all messages of a queue, including leased and delayed ones, and keep the queue.

    Prints how many they were.
    """
    settings = settings_of(context)
    scope = PurgeScope.READY if ready else PurgeScope.ALL
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("purge asks first, but there is no terminal: give --yes")
    with opened(settings) as access:
        if not yes:
            _ask(access.describe_queue(queue), scope)
        purged = access.purge(queue, scope)
    messages = "1 message" if purged == 1 else f"{purged} messages"
    document = {"queue": queue, "purged": purged}
    display.say(settings.as_json, document, f"removed {messages} from {queue}")


def _ask(counts: QueueCounts, scope: PurgeScope) -> None:
    is_ready = scope is PurgeScope.READY
    total = counts.ready if is_ready else counts.ready + counts.leased + counts.delayed
    what = "ready messages" if is_ready else "messages"
    if not click.confirm(f"Remove {total} {what} from queue {counts.queue}?", err=True):
        raise CommandFailed(ExitCode.REFUSED, f"queue {counts.queue} was not purged")
