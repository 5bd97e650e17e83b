"""Tables in Markdown, for a terminal and for docs/performance.md.

    python benchmarks/report.py FILE.json [DOCUMENT.md]

prints those of an earlier run, or puts them into a document, between two lines that say so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ceilings import IDLE
from results import BUSY, Circumstances, Row, find, read_json

BEGIN, END = "<!-- benchmarks/report.py -->\n", "\n<!-- end -->\n"
PHASES = ("publish", "receive", "remove")
QUIET_LOAD = 4.0
_ALONE, _FEW, _MANY = 1, 64, 512
"""Rounds of the file calls: for one connection, for many, for batches."""


def report(run: Circumstances, rows: Sequence[Row]) -> str:
    parts = [
        (f"Requests: {run.body_bytes} bytes, one message each", requests(rows)),
        ("Batches of 100", batches(rows)),
        ("Many connections: whole cycles, and one more client beside them", many(rows)),
        ("File calls in C, messages a second", file_calls(rows)),
        ("HTTP that does nothing, requests a second", idle(rows)),
        ("Other servers", others(rows)),
    ]
    text = [f"**{title}**\n\n{lines}" for title, lines in parts if lines]
    return "\n\n".join([*text, foot(run, rows)])


def foot(run: Circumstances, rows: Sequence[Row]) -> str:
    busy = [row for row in rows if row.busy is not None and row.busy > BUSY]
    own = find(rows, server="bare", width=64, phase="remove")
    lines = [
        f"`{run.command}`, {run.taken}: medians of {run.rounds} rounds, {run.seconds:.0f} seconds.",
        f"{run.machine}; load {run.load[0]} at the start, {run.load[1]} at the end.",
        *others_at_work(run),
        *(f"{place}: {what}." for place, what in run.durability.items()),
    ]
    if own is not None and own.busy is not None:
        lines.append(
            f"The generator reaches {own.per_second:.0f} requests a second where nothing is done "
            f"for them, and takes {1e6 * own.busy / own.per_second:.0f} µs of a processor for each."
        )
    lines += [
        f"At {row.width} connections the generator was busy for {row.busy:.0%} of {row.phase} of "
        f"{row.server} on {row.place}: the server may be faster." for row in busy
        if row.busy is not None and row.part != "idle"
    ]  # fmt: skip
    return "\n".join(f"- {line}" for line in lines)


def others_at_work(run: Circumstances) -> Iterator[str]:
    # What is measured and the generator are two, and some threads wait for a disk.
    if max(run.load) > QUIET_LOAD:
        yield ("Other work ran on this machine meanwhile: the figures are too low, and ratios of "
               "what ran at different times say little.")  # fmt: skip


def requests(rows: Sequence[Row]) -> str:
    head = ["", "connections", "", "messages/s", "of C", "of aiohttp", "of bare", "CPU, µs",
            "p50, ms", "p99, ms"]  # fmt: skip
    return table(head, (
        [row.place, row.width, row.phase, number(row.per_second),
         part(row, c_of(rows, row, "single", _ALONE if row.width == 1 else _FEW)),
         part(row, http_of(rows, row, "aiohttp")), part(row, http_of(rows, row, "bare")),
         *costs(row)]
        for row in rows if row.part == "requests"
    ))  # fmt: skip


def batches(rows: Sequence[Row]) -> str:
    head = ["", "connections", "", "messages/s", "of C", "CPU, µs", "p50, ms", "p99, ms"]
    return table(head, (
        [row.place, row.width, row.phase, number(row.per_second),
         part(row, c_of(rows, row, "batch", _MANY)), *costs(row)]
        for row in rows if row.part == "batches"
    ))  # fmt: skip


def many(rows: Sequence[Row]) -> str:
    head = ["", "connections", "cycles/s", "of the fewest", "CPU, µs", "p99, ms",
            "the one beside: p50, ms", "p99, ms"]  # fmt: skip
    first: dict[str, Row] = {}
    lines = []
    for row in rows:
        if row.part != "many" or row.phase != "cycle":
            continue
        fewest = first.setdefault(row.place, row)
        beside = find(rows, part="many", place=row.place, width=row.width, phase="beside")
        lines.append([
            row.place, row.width, number(row.per_second), part(row, fewest.per_second),
            number(row.cpu_us), milliseconds(row.p99_ms),
            milliseconds(beside.p50_ms if beside else None),
            milliseconds(beside.p99_ms if beside else None),
        ])  # fmt: skip
    return table(head, lines)


def file_calls(rows: Sequence[Row]) -> str:
    names = {"single": "one by one", "batch": "batches of up to 100"}
    lines: dict[tuple[str, str, int], list[object]] = {}
    for row in rows:
        if row.part == "files" and row.phase in PHASES:
            key = (row.place, names[row.server], row.width)
            lines.setdefault(key, [*key]).append(number(row.per_second))
    found = table(["", "", "messages a sync", *PHASES], lines.values())
    if alone := ", ".join(one_file(rows)):
        found += f"\n\nCreate, write, fsync and close of one file, median: {alone}."
    return found


def one_file(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line on the least that is durable at all, and how much longer a publish takes."""
    for row in rows:
        if row.phase == "file":
            publish = find(rows, part="requests", place=row.place, width=1, phase="publish")
            times = f" (a publish {publish.p50_ms / row.p50_ms:.2f} times that)" if publish else ""
            yield f"{row.place} {row.p50_ms:.3f} ms{times}"


def idle(rows: Sequence[Row]) -> str:
    lines: dict[tuple[str, int], list[object]] = {}
    for row in rows:
        if row.part == "idle":
            key = (IDLE[row.server], row.width)
            lines.setdefault(key, [*key]).append(
                f"{number(row.per_second)}, {number(row.cpu_us)} µs"
            )
    return table(["", "connections", *PHASES], lines.values())


def others(rows: Sequence[Row]) -> str:
    peers = [row for row in rows if row.part == "peers"]
    places = {row.place for row in peers}
    lines: dict[tuple[str, str, int], list[object]] = {}
    for row in (*(each for each in rows if each.part == "requests"), *peers):
        if row.place in places and peers:
            key = (row.place, row.server, row.width)
            lines.setdefault(key, [*key]).append(number(row.per_second))
            if row.phase == "cycle":
                lines[key] += [number(row.cpu_us), milliseconds(row.p99_ms)]
    head = ["", "", "connections", *PHASES, "cycle", "CPU of a cycle, µs", "p99, ms"]
    return table(head, sorted(lines.values(), key=lambda line: (line[0], line[2])))


def c_of(rows: Sequence[Row], row: Row, kind: str, width: int) -> float | None:
    """Return what the file calls alone reach; for a cycle, those of all three phases."""
    phases = PHASES if row.phase == "cycle" else (row.phase,)
    found = [
        find(rows, part="files", server=kind, place=row.place, width=width, phase=phase)
        for phase in phases
    ]
    return one_after_the_other(found)


def http_of(rows: Sequence[Row], row: Row, kind: str) -> float | None:
    phases = PHASES if row.phase == "cycle" else (row.phase,)
    found = [find(rows, part="idle", server=kind, width=row.width, phase=phase) for phase in phases]
    return one_after_the_other(found)


def one_after_the_other(rows: Sequence[Row | None]) -> float | None:
    known = [row.per_second for row in rows if row is not None]
    return 1 / sum(1 / rate for rate in known) if len(known) == len(rows) else None


def part(row: Row, of: float | None) -> str:
    return "" if of is None else f"{row.per_second / of:.2f}"


def costs(row: Row) -> Iterator[str]:
    yield from (number(row.cpu_us), milliseconds(row.p50_ms), milliseconds(row.p99_ms))


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table with text to the left and numbers to the right; nothing without lines."""
    cells = [[str(cell) for cell in line] for line in lines]
    if not cells:
        return ""
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    are_text = [not column[0][:1].isdigit() and any(column) for column in zip(*cells, strict=True)]
    rule = ["-" * width if text else "-" * (width - 1) + ":"
            for width, text in zip(widths, are_text, strict=True)]  # fmt: skip
    return "\n".join(
        "| " + " | ".join(
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(line, widths, are_text, strict=True)
        ) + " |"
        for line in (list(head), rule, *cells)
    )  # fmt: skip


def put_into(document: str, figures: str) -> str:
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the document has no lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{figures}\n{end}{after}"


def main(file: Path, document: Path | None = None) -> None:
    figures = report(*read_json(file))
    if document is None:
        print(figures)
    else:
        document.write_text(put_into(document.read_text(), figures))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
