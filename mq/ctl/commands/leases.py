"""The commands for leases: `mqctl touch` and `release`."""

from __future__ import annotations

import click

from mq.command.flags import Seconds
from mq.config import MAX_VISIBILITY_SECONDS
from mq.ctl.arguments import ID, LEASE, QUEUE, queue_argument, require_one
from mq.ctl.common_flags import everywhere, flags_of, opened, require_root
from mq.ctl.screen import display
from mq.names import MessageId, QueueName


@click.command()
@queue_argument
@click.argument("message_id", metavar="ID", type=ID)
@click.option("--visibility", "visibility_seconds", required=True,
              type=Seconds(0, MAX_VISIBILITY_SECONDS, min_open=True),
              help="Seconds from now until the message returns.")  # fmt: skip
@click.option("--lease", type=LEASE, help="Only under this lease, as recv showed it.")
@everywhere
@click.pass_context
def touch(
    context: click.Context,
    queue: QueueName,
    message_id: MessageId,
    visibility_seconds: float,
    lease: int | None,
) -> None:
    """Prolong a message's lease, or shorten it. Prints when it ends."""
    flags = flags_of(context)
    with opened(flags) as access:
        visible_at = access.touch(queue, message_id, visibility_seconds, lease)
    document = {"queue": queue, "id": message_id, "visible_at": visible_at}
    display.say(flags.as_json, document, visible_at)


@click.command()
@click.argument("queue", type=QUEUE, required=False)
@click.argument("ids", metavar="[ID]...", type=ID, nargs=-1)
@click.option("--lease", type=LEASE, help="Only under this lease, as recv showed it.")
@click.option("--group", help="The group of a Spark query, as its option says.")
@click.option("--force", is_flag=True, help="With --group: give back sealed batches too, which the "
              "query may have written already.")  # fmt: skip
@everywhere
@click.pass_context
def release(
    context: click.Context,
    *,
    queue: QueueName | None,
    ids: tuple[MessageId, ...],
    lease: int | None,
    group: str | None,
    force: bool,
) -> None:
    """Give messages back at once, and end their leases or delays. Stops at one that is not there.

    With --group, and --root only: give back what a Spark query has claimed and not read. Use it for
    a query that will not come back. A query that still runs is fenced off and fails.
    """
    if group is not None:
        if queue is not None or lease is not None:
            raise click.UsageError("release takes either QUEUE and ID, or --group")
        _release_group(context, group, force)
        return
    if queue is None or not ids or force:
        raise click.UsageError("release takes either QUEUE and ID, or --group")
    flags = flags_of(context)
    require_one(lease, ids)
    with opened(flags) as access:
        for message_id in ids:
            access.release(queue, message_id, lease)
            document = {"queue": queue, "id": message_id, "released": True}
            display.say(flags.as_json, document, f"released {message_id}")


def _release_group(context: click.Context, group: str, force: bool) -> None:
    flags = flags_of(context)
    root = require_root(flags, "release --group")
    from mq.ctl.commands.releasing import release_group

    with opened(flags):
        released = release_group(root, group, force)
    display.say(flags.as_json, released._asdict(), str(released))
