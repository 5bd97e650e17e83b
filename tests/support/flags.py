"""The flags of a command, for those who compare them with a document."""

from __future__ import annotations

import click


def options_of(command: click.Command) -> list[click.Option]:
    return [
        option
        for option in command.params
        if isinstance(option, click.Option) and option.name != "version"
    ]
