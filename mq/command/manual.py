"""The man page of a command, made from the definitions that its --help is made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

from mq.command.running import HELP_FLAGS

_EXIT_CODE = re.compile(r"^ *(\d+)  (.+)$", re.MULTILINE)


def man_page(command: click.Command, version: str, others: Iterable[str] = ()) -> str:
    """Return a page for section 1, in the macros of man(7). `others` are commands to see also."""
    name = str(command.name)
    context = click.Context(command, info_name=name, help_option_names=HELP_FLAGS)
    first, *rest = _paragraphs(command.help)
    blocks = [
        f'.TH "{_plain(name.upper())}" "1" "" "MQ {_plain(version)}" "MQ"',
        *_section("NAME", [f"{_plain(name)} \\- {_plain(first.split('. ')[0].rstrip('.'))}"]),
        *_section("SYNOPSIS", [_usage(context)]),
        *_section("DESCRIPTION", _joined([first, *rest])),
        *_section("OPTIONS", _options(context, frozenset())),
    ]
    if isinstance(command, click.Group):
        blocks += _section("COMMANDS", _commands(context, command))
    codes = _EXIT_CODE.findall(command.epilog or "")
    blocks += _section("EXIT STATUS", [_item(code, meaning) for code, meaning in codes])
    see = ", ".join(f"\\fB{_plain(each)}\\fR(1)" for each in sorted(others) if each != name)
    blocks += _section("SEE ALSO", [see] if see else [])
    return "\n".join(blocks) + "\n"


def _commands(context: click.Context, group: click.Group) -> Iterator[str]:
    """Yield a section for each command, without the options that the group has already."""
    known = frozenset(parameter.name for parameter in group.get_params(context))
    for name, command in sorted(group.commands.items()):
        below = click.Context(command, info_name=name, parent=context)
        yield f".SS {_plain(name)}"
        yield _usage(below)
        yield ".PP"
        yield from _joined(_paragraphs(command.help))
        yield from _options(below, known)


def _options(context: click.Context, known: frozenset[str | None]) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and parameter.name not in known:
            yield _item(record[0], record[1])


def _usage(context: click.Context) -> str:
    pieces = " ".join(context.command.collect_usage_pieces(context))
    return f"\\fB{_plain(context.command_path)}\\fR {_plain(pieces)}"


def _item(term: str, text: str) -> str:
    return f".TP\n\\fB{_plain(term)}\\fR\n{_plain(' '.join(text.split()))}"


def _section(title: str, blocks: Iterable[str]) -> list[str]:
    found = list(blocks)
    return [f".SH {title}", *found] if found else []


def _joined(paragraphs: Iterable[str]) -> list[str]:
    return "\n.PP\n".join(map(_plain, paragraphs)).splitlines()


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(each.split()) for each in (text or "").split("\n\n") if each.strip()]


def _plain(text: str) -> str:
    """Escape a text, so that no macro and no escape is seen in it."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    escaped = escaped.replace('"', "\\(dq").replace("\b", "").strip()
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
