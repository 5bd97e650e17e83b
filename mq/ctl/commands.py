"""The commands of mqctl, defined once for HTTP and for the folders."""

from __future__ import annotations

import json
import sys

import click

from mq import __version__
from mq.command.pace import messages_text
from mq.command.running import exit_codes_text
from mq.ctl import display
from mq.ctl.access import QueueCounts
from mq.ctl.arguments import Commands, IdParam, LeaseParam, QueueParam
from mq.ctl.benching import bench
from mq.ctl.executing import execute
from mq.ctl.leases import release, touch
from mq.ctl.moving import move, redrive
from mq.ctl.purging import purge
from mq.ctl.queue_settings import set_settings, settings_text
from mq.ctl.reading import cat, tail
from mq.ctl.receiving import recv
from mq.ctl.sending import send
from mq.ctl.settings import Settings, admin_option, everywhere, opened, require_root, settings_of
from mq.ctl.top import top
from mq.ctl.transfer import export_queue, import_queue
from mq.errors import CTL_EXIT_CODES, CommandFailed, ExitCode
from mq.lifecycle import SHOWN_STATES, State
from mq.names import MessageId, QueueName

_queue = click.argument("queue", type=QueueParam())
_raw = click.option(
    "--raw", is_flag=True, help="Write control characters of a body to a terminal too."
)


@click.group(
    name="mqctl", cls=Commands, invoke_without_command=True, epilog=exit_codes_text(CTL_EXIT_CODES)
)
@everywhere
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def mqctl(context: click.Context) -> None:
    """Use the queues of MQ over HTTP, or with --root directly on the folders, beside running
    servers or without any.

    You may give --url, --root and --json before or after the command.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(ExitCode.USAGE)


@mqctl.command()
@admin_option
@everywhere
@click.pass_context
def ls(context: click.Context, admin: str | None) -> None:
    """List the queues and count their messages."""
    settings = settings_of(context)
    settings = settings._replace(admin=admin or settings.admin)
    with opened(settings) as access:
        _print_counts(settings, access.list_queues())


@mqctl.command()
@_queue
@everywhere
@click.pass_context
def info(context: click.Context, queue: QueueName) -> None:
    """Count a queue's messages by state, and show its settings."""
    settings = settings_of(context)
    with opened(settings) as access:
        counts, found = access.describe_queue(queue), access.settings(queue)
    if settings.as_json:
        click.echo(json.dumps(counts._asdict() | {"settings": found}))
        return
    click.echo(display.counts_table([counts]))
    if found:
        click.echo(settings_text(found))


@mqctl.command()
@_queue
@everywhere
@click.pass_context
def create(context: click.Context, queue: QueueName) -> None:
    """Make a queue. With --root also make the root, if it is missing or empty."""
    settings = settings_of(context)
    with opened(settings) as access:
        created = access.create_queue(queue)
    text = f"{'created' if created else 'existed'} {queue}"
    display.say(settings.as_json, {"queue": queue, "created": created}, text)


@mqctl.command()
@_queue
@click.option("--yes", is_flag=True, help="Do not ask.")
@everywhere
@click.pass_context
def rm(context: click.Context, queue: QueueName, yes: bool) -> None:
    """Delete a queue with all its messages, whatever their state."""
    settings = settings_of(context)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("rm asks before it deletes, but there is no terminal: give --yes")
    with opened(settings) as access:
        if not yes:
            _ask(access.describe_queue(queue))
        access.delete_queue(queue)
    display.say(settings.as_json, {"queue": queue, "deleted": True}, f"deleted {queue}")


@mqctl.command()
@_queue
@click.argument("ids", metavar="ID...", type=IdParam(), nargs=-1, required=True)
@click.option("--lease", type=LeaseParam(), help="Only under this lease, as recv showed it.")
@everywhere
@click.pass_context
def ack(
    context: click.Context, queue: QueueName, ids: tuple[MessageId, ...], lease: int | None
) -> None:
    """Remove messages for good, whatever their state. Stops at one that cannot be removed."""
    settings = settings_of(context)
    if lease is not None and len(ids) > 1:
        raise click.UsageError("--lease belongs to one message; give exactly one ID with it")
    with opened(settings) as access:
        for message_id in ids:
            access.remove(queue, message_id, lease)
            display.say(
                settings.as_json,
                {"queue": queue, "id": message_id, "removed": True},
                f"removed {message_id}",
            )


@mqctl.command()
@_queue
@click.argument("message_id", metavar="[ID]", type=IdParam(), required=False)
@click.option("-n", "--max", "limit", type=click.IntRange(1), default=10, show_default=True,
              help="How many messages to show at most.")  # fmt: skip
@click.option("--state", type=click.Choice([str(each) for each in SHOWN_STATES]),
              help="Which messages to show: those that are ready, if it is not given.")  # fmt: skip
@_raw
@everywhere
@click.pass_context
def peek(
    context: click.Context,
    *,
    queue: QueueName,
    message_id: MessageId | None,
    limit: int,
    state: str | None,
    raw: bool,
) -> None:
    """Look at messages and change nothing.

    Without ID, print a line for each of the oldest messages that are ready, or in another state.
    With ID, print the body of that message, whatever its state, and its receipt on stderr.
    """
    settings = settings_of(context)
    if message_id is not None and state is not None:
        raise click.UsageError("with an ID the message is shown whatever its state: drop --state")
    with opened(settings) as access, display.output_to(None, raw) as (write, _):
        if message_id is not None:
            messages = iter([access.peek_at(queue, message_id)])
            put = display.write_document if settings.as_json else display.write_body
        else:
            messages = access.peek(queue, limit, State(state or State.READY))
            put = display.write_document if settings.as_json else display.write_line
        shown = 0
        for message in messages:
            put(message, write)
            shown += 1
    if not shown:
        context.exit(ExitCode.EMPTY)


@mqctl.command()
@click.option("--repair", is_flag=True, help="Mend what is found. Nothing is unlinked.")
@everywhere
@click.pass_context
def fsck(context: click.Context, repair: bool) -> None:
    """Check the folders, and mend them. Only with --root.

    You may run it beside servers. It prints one line for each finding, nothing if all is well, and
    exits with 1 while findings remain.
    """
    settings = settings_of(context)
    root = require_root(settings, "fsck")
    from mq.ctl.checking import check_and_print
    from mq.fsck.check import mend, report

    if check_and_print(root, mend if repair else report, settings):
        context.exit(ExitCode.FINDINGS)


mqctl.add_command(send)
mqctl.add_command(recv)
mqctl.add_command(cat)
mqctl.add_command(tail)
mqctl.add_command(top)
mqctl.add_command(set_settings)
mqctl.add_command(purge)
mqctl.add_command(release)
mqctl.add_command(touch)
mqctl.add_command(move)
mqctl.add_command(redrive)
mqctl.add_command(execute)
mqctl.add_command(bench)


mqctl.add_command(export_queue)
mqctl.add_command(import_queue)


def _ask(counts: QueueCounts) -> None:
    total = counts.ready + counts.leased + counts.delayed
    if not click.confirm(f"Delete queue {counts.queue} with {messages_text(total)}?", err=True):
        raise CommandFailed(ExitCode.REFUSED, f"queue {counts.queue} was not deleted")


def _print_counts(settings: Settings, queues: list[QueueCounts]) -> None:
    if settings.as_json:
        for counts in queues:
            click.echo(json.dumps(counts._asdict()))
    elif queues:
        click.echo(display.counts_table(queues))
