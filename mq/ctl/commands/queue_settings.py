"""`mqctl set`, and the settings of a queue on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from mq.command.stdout import printable
from mq.ctl.arguments import queue_argument
from mq.ctl.common_flags import everywhere, flags_of, opened
from mq.names import QueueName
from mq.spool.queue.queue_settings import NO_SETTINGS, SETTINGS, change

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ChangeParam(click.ParamType[str]):
    """A change of a setting, as NAME=VALUE."""

    name = "name=value"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        given = list(ctx.params.get("changes") or ())
        if given and given[-1] == "=":  # To bash it is a word of its own.
            del given[-1]
        if given and given[-1] in SETTINGS:
            offers = _values(ctx, given[-1], incomplete)
        elif "=" in incomplete:
            name, _, begun = incomplete.partition("=")
            offers = [f"{name}={value}" for value in _values(ctx, name, begun)]
        else:
            there = {each.partition("=")[0] for each in given}
            offers = [f"{name}=" for name in SETTINGS if name not in there]
        return [CompletionItem(each) for each in offers if each.startswith(incomplete)]


def _values(context: click.Context, name: str, begun: str) -> list[str]:
    """Return the values that a setting may have, where they can be listed."""
    from mq.ctl.completing import queue_names

    if name in ("dead-letters", "also"):
        return queue_names(context, begun)
    return ["true", "false"] if name == "paused" else []


@click.command("set")
@queue_argument
@click.argument("changes", metavar="NAME=VALUE...", nargs=-1, required=True,
                type=ChangeParam())  # fmt: skip
@everywhere
@click.pass_context
def set_settings(context: click.Context, queue: QueueName, changes: Sequence[str]) -> None:
    """Change settings of a queue, and print all of them.

    NAME is visibility, delay or ttl, in seconds; max-receives or max-messages; dead-letters, the
    name of a queue; paused, true or false; or also, names of queues that get a copy of each
    message, with commas between them. Without a VALUE the queue goes by the flags of servers and
    movers again.
    """
    flags = flags_of(context)
    with opened(flags) as access:
        access.change_settings(queue, changes_of(queue, changes))
        found = access.settings(queue)
    if flags.as_json:
        click.echo(json.dumps({"queue": queue, "settings": found}))
    elif found:
        click.echo(settings_text(found))


def settings_text(found: Mapping[str, object]) -> str:
    """Return the settings with a line for each, as in the file."""
    names = [*SETTINGS, *(name for name in found if name not in SETTINGS)]
    lines = [f"{name}={_value_text(found[name])}" for name in names if name in found]
    return "\n".join(map(printable, lines))


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def changes_of(queue: QueueName, given: Sequence[str]) -> dict[str, str]:
    """Return the changes of a queue's settings that were given. Raises UsageError, and
    InvalidRequest for a setting that the queue cannot have."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            example = f"{name}=VALUE" if name in SETTINGS else "also=bills,kitchen or delay="
            raise click.UsageError(f"{each!r} is not NAME=VALUE; write {example}")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = value
    change(queue, NO_SETTINGS, found)
    return found
