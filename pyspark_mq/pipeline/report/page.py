"""A report as one page of HTML, which loads nothing from elsewhere and needs no script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from pyspark_mq.pipeline.report.report import AGES, COLUMNS, COUNTS, STATES, Report, table_rows

BAR_HEIGHT = 18
MOST_BARS = 40
"""How many queues one plot shows. A sentence below it counts the others, which are in the table."""


class Bar(NamedTuple):
    """One bar of a plot: parts of different kinds, each a number of messages."""

    label: str
    parts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.parts)


class Plot(NamedTuple):
    """A plot. `kinds` name the parts of its bars; `more` are the bars that it has no room for."""

    title: str
    kinds: tuple[str, ...]
    bars: list[Bar]
    more: list[Bar]


def plots_of(report: Report) -> list[Plot]:
    """Return the data behind each plot of the page."""
    queues = report.queues
    backlog = [Bar(each.queue, (each.ready, each.leased, each.delayed)) for each in queues]
    ages = [
        Bar(name, (sum(each.ages[place] for each in queues),))
        for place, (name, _) in enumerate(AGES)
    ]
    counts = [
        Bar(name, (sum(each.counts[place] for each in queues),))
        for place, name in enumerate(COUNTS)
    ]
    dead = [Bar(each.queue, (each.dead,)) for each in queues if each.dead]
    return [
        _largest("Backlog by queue", STATES[:3], backlog),
        Plot("Age of messages", ("messages",), ages, []),
        Plot("How often they were received", ("messages",), counts, []),
        _largest("Dead letters by queue", ("dead",), dead),
    ]


def _largest(title: str, kinds: tuple[str, ...], bars: list[Bar]) -> Plot:
    """Return a plot of the largest queues."""
    bars = sorted(bars, key=lambda bar: -bar.total)
    return Plot(title, kinds, bars[:MOST_BARS], bars[MOST_BARS:])


def page_of(report: Report) -> str:
    """Return the whole page. Its data is in it once more, as JSON in the element `data`."""
    title = f"Queues of {report.source}"
    parts = [
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        # The page needs nothing but its own style, so nothing else is allowed to it.
        "<meta http-equiv='Content-Security-Policy' "
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n",
        f"<h1>{escape(title)}</h1>\n<p>Taken at {escape(report.taken_at)}.</p>\n",
        *map(_plot, plots_of(report)),
        "<h2>Queues</h2>\n",
        _table([COLUMNS, *table_rows(report)]),
        f"<script type='application/json' id='data'>{_data(report)}</script>\n",
        "</body>\n</html>\n",
    ]
    return "".join(parts)


def _data(report: Report) -> str:
    # No queue can have such a name, but a page must not rest on that.
    return json.dumps(report.to_dict()).replace("<", "\\u003c")


def _plot(plot: Plot) -> str:
    title = f"<h2>{escape(plot.title)}</h2>\n"
    if not any(bar.total for bar in plot.bars):
        return f"{title}<p>None.</p>\n"
    most = max(bar.total for bar in plot.bars)
    bars = "".join(_bar(bar, most, plot.kinds) for bar in plot.bars)
    return f"{title}{_legend(plot.kinds)}<div class='plot'>\n{bars}</div>\n{_more(plot)}"


def _legend(kinds: Sequence[str]) -> str:
    if len(kinds) == 1:
        return ""
    names = "".join(
        f"<span><i class='k{number}'></i>{escape(kind)}</span>" for number, kind in enumerate(kinds)
    )
    return f"<p class='legend'>{names}</p>\n"


def _bar(bar: Bar, most: int, kinds: Sequence[str]) -> str:
    """Return the label, a drawing whose width is that of the greatest bar, and the number."""
    left, drawn = 0.0, ""
    for number, part in enumerate(bar.parts):
        width = 100 * part / most
        if part:
            drawn += (
                f"<rect x='{left:.2f}%' width='{max(width, 0.2):.2f}%' height='{BAR_HEIGHT}' "
                f"class='k{number}'>"
                f"<title>{escape(bar.label)}: {part:,} {escape(kinds[number])}</title></rect>"
            )
        left += width
    return (
        f"<span class='label'>{escape(bar.label)}</span>"
        f"<svg height='{BAR_HEIGHT}' aria-hidden='true'>{drawn}</svg>"
        f"<span class='number'>{bar.total:,}</span>\n"
    )


def _more(plot: Plot) -> str:
    if not plot.more:
        return ""
    messages = sum(bar.total for bar in plot.more)
    shown, more = len(plot.bars), len(plot.more)
    queues, are = ("queue", "is") if more == 1 else ("queues", "are")
    return (
        f"<p class='more'>These are the {shown} largest of {shown + more} queues. "
        f"{more:,} more {queues}, with {messages:,} messages, {are} in the table below.</p>\n"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    cells = "".join(f"<th scope='col'>{escape(each)}</th>" for each in head)
    lines = "".join(f"<tr>{''.join(map(_cell, head, row))}</tr>\n" for row in body)
    return (
        "<div class='wide' role='region' aria-label='Queues' tabindex='0'><table>\n"
        f"<thead><tr>{cells}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
    )


def _cell(column: str, text: str) -> str:
    """Return a cell that knows its column's name: a narrow screen shows no head."""
    return f"<td data-column='{escape(column)}'>{escape(text)}</td>"


_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --faint: #5b6472; --paper: #fff;
  --line: #d5dae2; --k0: #2f6fb2; --k1: #e0912f; --k2: #8a94a6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ef; --faint: #a3adbb; --paper: #14181f; --line: #343c49;
    --k0: #6aa9e9; --k1: #f0b35f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.plot { display: grid; grid-template-columns: minmax(6rem, 17rem) 1fr auto; gap: .45rem .75rem;
  align-items: center; }
.plot svg { width: 100%; display: block; background: linear-gradient(var(--line), var(--line))
  left / 1px 100% no-repeat; }
.label { text-align: right; line-height: 1.2; overflow-wrap: anywhere; unicode-bidi: isolate; }
.number { font-variant-numeric: tabular-nums; text-align: right; }
rect.k0 { fill: var(--k0); } rect.k1 { fill: var(--k1); } rect.k2 { fill: var(--k2); }
.legend span { display: inline-block; margin-right: 1.2rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; }
i.k0 { background: var(--k0); } i.k1 { background: var(--k1); } i.k2 { background: var(--k2); }
.more { color: var(--faint); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere;
  unicode-bidi: isolate; min-width: 7rem; }
tbody tr:last-child { font-weight: 600; }
@media (max-width: 40rem) {
  .plot { grid-template-columns: 1fr auto; row-gap: .15rem; }
  .label { grid-column: 1 / -1; text-align: left; margin-top: .4rem; } }
@media (max-width: 60rem) {
  thead { display: none; }
  tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line); }
  tr td { display: inline-block; border: 0; padding: 0 1rem 0 0; }
  tr td:first-child { display: block; font-weight: 600; }
  td:not(:first-child)::before { content: attr(data-column) " "; color: var(--faint); } }
"""
