"""A report as one page of HTML, which loads nothing from elsewhere and needs no script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from pyspark_mq.pipeline.report import AGES, COLUMNS, COUNTS, STATES, Report, table_rows

WIDTH, BAR_HEIGHT, GAP = 720, 18, 8
_LABEL_WIDTH, _NUMBER_WIDTH = 220, 90
_LABEL_LETTERS = 30
MOST_BARS = 40
"""How many queues one plot shows; the others are in the table."""


class Bar(NamedTuple):
    """One bar of a plot: parts of different kinds, each a number of messages."""

    label: str
    parts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.parts)


class Plot(NamedTuple):
    """A plot. `kinds` name the parts of its bars."""

    title: str
    kinds: tuple[str, ...]
    bars: list[Bar]


def plots_of(report: Report) -> list[Plot]:
    """Return the data behind each plot of the page."""
    queues = report.queues
    largest = sorted(queues, key=lambda each: -each.ready - each.leased - each.delayed)
    backlog = [
        Bar(each.queue, (each.ready, each.leased, each.delayed)) for each in largest[:MOST_BARS]
    ]
    ages = [
        Bar(name, (sum(each.ages[place] for each in queues),))
        for place, (name, _) in enumerate(AGES)
    ]
    counts = [
        Bar(name, (sum(each.counts[place] for each in queues),))
        for place, name in enumerate(COUNTS)
    ]
    most_dead = sorted((each for each in queues if each.dead), key=lambda each: -each.dead)
    dead = [Bar(each.queue, (each.dead,)) for each in most_dead[:MOST_BARS]]
    return [
        Plot("Backlog by queue", STATES[:3], backlog),
        Plot("Age of messages", ("messages",), ages),
        Plot("How often they were received", ("messages",), counts),
        Plot("Dead letters by queue", ("dead",), dead),
    ]


def page_of(report: Report) -> str:
    """Return the whole page. Its data is in it once more, as JSON in the element `data`."""
    title = f"Queues of {report.source}"
    parts = [
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
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
    head = f"<h2>{escape(plot.title)}</h2>\n"
    if not any(bar.total for bar in plot.bars):
        return head + "<p>None.</p>\n"
    legend = ""
    if len(plot.kinds) > 1:
        kinds = "".join(
            f"<span><i class='k{number}'></i>{escape(kind)}</span>"
            for number, kind in enumerate(plot.kinds)
        )
        legend = f"<p class='legend'>{kinds}</p>\n"
    most = max(bar.total for bar in plot.bars)
    height = len(plot.bars) * (BAR_HEIGHT + GAP)
    lines = "".join(
        _bar(bar, place * (BAR_HEIGHT + GAP), most, plot.kinds)
        for place, bar in enumerate(plot.bars)
    )
    return (
        f"{head}{legend}<svg viewBox='0 0 {WIDTH} {height}' role='img' "
        f"aria-label='{escape(plot.title)}'>\n{lines}</svg>\n"
    )


def _bar(bar: Bar, top: int, most: int, kinds: Sequence[str]) -> str:
    room = WIDTH - _LABEL_WIDTH - _NUMBER_WIDTH
    middle = top + BAR_HEIGHT - 5
    drawn = [
        f"<text x='{_LABEL_WIDTH - 8}' y='{middle}' class='label'>{escape(_short(bar.label))}"
        f"<title>{escape(bar.label)}</title></text>"
    ]
    left = float(_LABEL_WIDTH)
    for number, part in enumerate(bar.parts):
        width = room * part / most
        if part:
            drawn.append(
                f"<rect x='{left:.1f}' y='{top}' width='{max(width, 1):.1f}' "
                f"height='{BAR_HEIGHT}' class='k{number}'>"
                f"<title>{escape(bar.label)}: {part:,} {escape(kinds[number])}</title></rect>"
            )
        left += width
    drawn.append(f"<text x='{left + 6:.1f}' y='{middle}'>{bar.total:,}</text>")
    return "".join(drawn) + "\n"


def _short(label: str) -> str:
    """Shorten a label to what fits beside a bar: its beginning and its end, by which queues
    differ."""
    return label if len(label) <= _LABEL_LETTERS else f"{label[:16]}…{label[-12:]}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    cells = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>\n" for row in body
    )
    return f"<table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>\n"


_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --line: #d5dae2;
  --k0: #2f6fb2; --k1: #e0912f; --k2: #8a94a6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ef; --paper: #14181f; --line: #343c49; --k0: #6aa9e9; --k1: #f0b35f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
svg { width: 100%; height: auto; font-size: 12px; } svg text { fill: var(--ink); }
svg .label { text-anchor: end; }
rect.k0 { fill: var(--k0); } rect.k1 { fill: var(--k1); } rect.k2 { fill: var(--k2); }
.legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; }
i.k0 { background: var(--k0); } i.k1 { background: var(--k1); } i.k2 { background: var(--k2); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
tbody tr:last-child { font-weight: 600; }
"""
