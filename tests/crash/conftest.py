"""A mover of its own process, beside the servers. Figures, printed below the summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.files import Files
from mq.spool.root import open_root
from tests.conftest import Process

Figures = Callable[[str], None]

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def print_figures(request: pytest.FixtureRequest) -> Figures:
    """`print_figures(text)` shows a table below the summary of the run."""
    return request.config.stash.setdefault(_FIGURES, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for text in config.stash.get(_FIGURES, []):
        terminalreporter.write_line(f"\n{text}")


@pytest.fixture
def start_mover(root: Path, processes: list[Process]) -> Callable[..., Process]:
    """`start_mover("--delay=1")` starts `mq-mover` on a root, which is made; it ends with the
    test."""
    open_root(root, 0o700, Files())[0].close()

    def start(*flags: str) -> Process:
        folders = (f"--source={root / 'delay'}", f"--destination={root / 'queues'}")
        log = root.with_name(f"mover-{len(processes)}.log")
        processes.append(Process("mq_mover", *folders, *flags, log=log))
        return processes[-1]

    return start
