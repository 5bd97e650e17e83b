"""The commands of mqctl, defined once for HTTP and for the folders."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from mq import __version__
from mq.command.pace import messages_text
from mq.command.running import EXIT_CODES, exit_codes_text
from mq.ctl.arguments import ID, LEASE, Commands, queue_argument, require_one
from mq.ctl.commands.benching import bench
from mq.ctl.commands.executing import execute
from mq.ctl.commands.leases import release, touch
from mq.ctl.commands.moving import move, redrive
from mq.ctl.commands.purging import purge
from mq.ctl.commands.queue_settings import (
    ChangeParam,
    changes_of,
    set_settings,
    settings_text,
)
from mq.ctl.commands.reading import cat, tail
from mq.ctl.commands.receiving import recv
from mq.ctl.commands.sending import send
from mq.ctl.commands.top import top
from mq.ctl.commands.transfer import export_queue, import_queue
from mq.ctl.common_flags import (
    CommonFlags,
    admin_option,
    everywhere,
    flags_of,
    opened,
    raw_option,
    require_root,
)
from mq.ctl.screen import display
from mq.ctl.ways.access import QueueCounts
from mq.errors import CommandFailed, ExitCode
from mq.lifecycle import SHOWN_STATES, State
from mq.names import MessageId, QueueName

CTL_EXIT_CODES = EXIT_CODES | {
    ExitCode.OK: "done",
    ExitCode.FINDINGS: "fsck: findings remain",
    ExitCode.USAGE: "a flag or argument is wrong, or the command needs --root",
    ExitCode.EMPTY: "empty: there is no message to show",
    ExitCode.NOT_FOUND: "no such queue or message",
    ExitCode.REFUSED: "refused; nothing was changed, apart from earlier ids and lines",
    ExitCode.UNAVAILABLE: "no MQ answers there, an answer broke off, or a message is damaged",
    ExitCode.TRY_AGAIN: "not possible now; the outcome may be unknown; try again",
}
"""What `mqctl --help` says about each exit code."""


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
    flags = flags_of(context, admin)
    with opened(flags) as access:
        _print_counts(flags, access.list_queues())


@mqctl.command()
@queue_argument
@everywhere
@click.pass_context
def info(context: click.Context, queue: QueueName) -> None:
    """Count a queue's messages by state, and show its settings."""
    flags = flags_of(context)
    with opened(flags) as access:
        counts, found = access.describe_queue(queue), access.settings(queue)
    if flags.as_json:
        click.echo(json.dumps(counts._asdict() | {"settings": found}))
        return
    click.echo(display.counts_table([counts]))
    if found:
        click.echo(settings_text(found))


@mqctl.command()
@queue_argument
@click.argument("changes", metavar="[NAME=VALUE]...", nargs=-1, type=ChangeParam())
@everywhere
@click.pass_context
def create(context: click.Context, queue: QueueName, changes: Sequence[str]) -> None:
    """Make a queue. With --root also make the root, if it is missing or empty.

    It has the named settings, as for `set`, from its first moment on. If the queue exists, they are
    changed.
    """
    flags = flags_of(context)
    with opened(flags) as access:
        created = access.create_queue(queue, changes_of(queue, changes))
    text = f"{'created' if created else 'existed'} {queue}"
    display.say(flags.as_json, {"queue": queue, "created": created}, text)


@mqctl.command()
@queue_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@everywhere
@click.pass_context
def rm(context: click.Context, queue: QueueName, yes: bool) -> None:
    """Delete a queue with all its messages, whatever their state."""
    flags = flags_of(context)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("rm asks before it deletes, but there is no terminal: give --yes")
    with opened(flags) as access:
        if not yes:
            _ask(access.describe_queue(queue))
        access.delete_queue(queue)
    display.say(flags.as_json, {"queue": queue, "deleted": True}, f"deleted {queue}")


@mqctl.command()
@queue_argument
@click.argument("ids", metavar="ID...", type=ID, nargs=-1, required=True)
@click.option("--lease", type=LEASE, help="Only under this lease, as recv showed it.")
@everywhere
@click.pass_context
def ack(
    context: click.Context, queue: QueueName, ids: tuple[MessageId, ...], lease: int | None
) -> None:
    """Remove messages for good, whatever their state. Stops at one that cannot be removed."""
    flags = flags_of(context)
    require_one(lease, ids)
    with opened(flags) as access:
        for message_id in ids:
            access.remove(queue, message_id, lease)
            display.say(
                flags.as_json,
                {"queue": queue, "id": message_id, "removed": True},
                f"removed {message_id}",
            )


@mqctl.command()
@queue_argument
@click.argument("message_id", metavar="[ID]", type=ID, required=False)
@click.option("-n", "--max", "limit", type=click.IntRange(1), default=10, show_default=True,
              help="How many messages to show at most.")  # fmt: skip
@click.option("--state", type=click.Choice([str(each) for each in SHOWN_STATES]),
              help="Which messages to show.  [default: ready]")  # fmt: skip
@raw_option
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
    flags = flags_of(context)
    if message_id is not None and state is not None:
        raise click.UsageError("with an ID the message is shown whatever its state: drop --state")
    with opened(flags) as access, display.output_to(None, raw) as (write, _):
        if message_id is not None:
            messages = iter([access.peek_at(queue, message_id)])
            put = display.write_document if flags.as_json else display.write_body
        else:
            messages = access.peek(queue, limit, State(state or State.READY))
            put = display.write_document if flags.as_json else display.write_line
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
    flags = flags_of(context)
    root = require_root(flags, "fsck")
    from mq.ctl.commands.checking import check_and_print
    from mq.fsck.check import mend, report

    if check_and_print(root, mend if repair else report, flags):
        if not repair and not flags.as_json:
            click.echo("mqctl: fsck --repair mends what it can, and unlinks nothing", err=True)
        context.exit(ExitCode.FINDINGS)


for _command in (
    send,
    recv,
    cat,
    tail,
    top,
    set_settings,
    purge,
    release,
    touch,
    move,
    redrive,
    execute,
    bench,
    export_queue,
    import_queue,
):
    mqctl.add_command(_command)


def _ask(counts: QueueCounts) -> None:
    messages = messages_text(counts.total)
    if not click.confirm(f"Delete queue {counts.queue} with {messages}?", err=True):
        raise CommandFailed(ExitCode.REFUSED, f"queue {counts.queue} was not deleted")


def _print_counts(flags: CommonFlags, queues: list[QueueCounts]) -> None:
    if flags.as_json:
        for counts in queues:
            click.echo(json.dumps(counts._asdict()))
    elif queues:
        click.echo(display.counts_table(queues))
