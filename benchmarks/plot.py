"""Draws what `bench.py --json FILE` found, as SVG.

python benchmarks/plot.py FILE.json > docs/performance.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from report import PHASES, c_of, http_of
from results import Row, find, read_json

_WIDTH, _LABEL, _ROW, _HEAD = 760, 170, 18, 34
_CONNECTIONS = 64
_COLOURS = {"mq": "#2563a8", "file": "#9a9a9a", "http": "#c9c9c9", "other": "#c98a2b"}


class Bar(NamedTuple):
    label: str
    value: float
    colour: str


class Panel(NamedTuple):
    """Bars to one scale."""

    title: str
    bars: Sequence[Bar]


def panels(rows: Sequence[Row]) -> Iterator[Panel]:
    places = dict.fromkeys(row.place for row in rows if row.part == "requests")
    for place in places:
        bars = []
        for phase in PHASES:
            row = find(rows, part="requests", place=place, width=_CONNECTIONS, phase=phase)
            if row is None:
                continue
            bars.append(Bar(f"{phase}: MQ", row.per_second, _COLOURS["mq"]))
            ceilings = [
                ("an empty handler", http_of(rows, row, "aiohttp"), "http"),
                ("its file calls in C", c_of(rows, row, "single", _CONNECTIONS), "file"),
            ]
            bars += [Bar(label, rate, _COLOURS[kind]) for label, rate, kind in ceilings if rate]
        if bars:
            yield Panel(f"{place}, requests a second at {_CONNECTIONS} connections", bars)
    peers = [row for row in rows if row.part == "peers" and row.phase == "cycle"]
    for place in dict.fromkeys(row.place for row in peers):
        ours = find(rows, part="requests", place=place, width=_CONNECTIONS, phase="cycle")
        them = [row for row in peers if row.place == place and row.width == _CONNECTIONS]
        bars = [Bar("MQ", ours.per_second, _COLOURS["mq"])] if ours else []
        bars += [Bar(row.server, row.per_second, _COLOURS["other"]) for row in them]
        yield Panel(f"{place}, publish, receive and remove a second, in turn", bars)


def draw(rows: Sequence[Row]) -> str:
    parts, y = [], 0
    for panel in panels(rows):
        parts += list(draw_panel(panel, y))
        y += _HEAD + _ROW * len(panel.bars)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 10}" '
        'font-family="sans-serif" font-size="12">'
    )
    back = f'<rect width="{_WIDTH}" height="{y + 10}" fill="#ffffff"/>'
    return "\n".join([head, back, *parts, "</svg>", ""])


def draw_panel(panel: Panel, top: int) -> Iterator[str]:
    yield f'<text x="10" y="{top + 24}" font-weight="bold">{escape(panel.title)}</text>'
    most = max((bar.value for bar in panel.bars), default=1.0)
    for number, (label, value, colour) in enumerate(panel.bars):
        y = top + _HEAD + number * _ROW
        width = (_WIDTH - _LABEL - 80) * value / most
        yield f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(label)}</text>'
        yield f'<rect x="{_LABEL}" y="{y + 2}" width="{width:.1f}" height="13" fill="{colour}"/>'
        yield f'<text x="{_LABEL + width + 5:.1f}" y="{y + 12}">{value:.0f}</text>'


if __name__ == "__main__":
    sys.stdout.write(draw(read_json(Path(sys.argv[1]))[1]))
