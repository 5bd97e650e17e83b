"""A mover of its own process, beside the servers. Figures, printed below the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.crash.enumeration.sight import Sight
from tests.support.figures import PrintFigures
from tests.support.lone_root import make_root
from tests.support.processes import Process
from tests.support.processes import start_mover as start_mover_on

_FIGURES = "figures: "


@pytest.fixture
def print_figures(request: pytest.FixtureRequest) -> PrintFigures:
    """`print_figures(head, line)` puts a line below that head, which is shown with all its lines
    after the summary of the run."""

    def add(head: str, line: str) -> None:
        # With the test's report they come from whichever process ran it.
        request.node.user_properties.append((_FIGURES + head, line))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tables: dict[str, list[str]] = {}
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport) and report.when == "call":
            for name, line in report.user_properties:
                if name.startswith(_FIGURES):
                    tables.setdefault(name.removeprefix(_FIGURES), []).append(str(line))
    for head, lines in tables.items():
        for line in ("", head, *lines):
            terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def sight(quick_folder: Path) -> Iterator[Sight]:
    """What the rows of the enumeration come by."""
    with Sight(quick_folder) as opened:
        yield opened


@pytest.fixture
def start_mover(root: Path, processes: list[Process]) -> Callable[..., Process]:
    """`start_mover("--delay=1")` starts `mq-mover` on a root, which is made; it ends with the
    test."""
    make_root(root)

    def start(*flags: str) -> Process:
        log = root.with_name(f"mover-{len(processes)}.log")
        processes.append(start_mover_on(root, *flags, log=log))
        return processes[-1]

    return start
