"""How `make test` shares the tests out among processes: file by file, and some folders as a whole.

A process goes through its share one test after the other, as a run without processes does.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/spark/", "tests/deploy/", "tests/tidy/")
"""Folders whose tests share what takes long to make: a Spark session; images and networks; the
syntax of all files."""

APART = ("tests/crash/faults/test_every_call.py",)
"""Files whose tests share nothing and together take minutes. Each of their tests is a share, so
that no process is left alone with such a file while another has nothing to do."""

FIRST = ("tests/spark/", "tests/deploy/", "tests/packaging/test_packaging.py", "tests/crash/")
"""What takes longest, in this order, so that no process is left alone with it in the end. Unlike
the others, most of these tests compute all the time."""


def share_of(test: str) -> str:
    """Return the share of a test; those of one share run in one process. `test` is a node id: its
    file, then `::`."""
    if test.startswith(APART):
        return test
    return next((folder for folder in TOGETHER if test.startswith(folder)), test.partition("::")[0])


class _Shares(LoadScopeScheduling):  # type: ignore[misc]
    """The first process takes shares from the beginning, the others from the end: tests that
    compute run beside tests that wait, and no processor is idle while two of these wait."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process its next share late, for another may be idle before it comes to that. It
        runs a test once it knows the one behind it, so the last of its share waits for a share."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    # Else those with the most tests would come first.
    config.option.loadscopereorder = False
    return _Shares(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests in order, only where this is one process of several."""
    twice = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"of tests of the same name only one would be run: {twice}")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(item.nodeid))


def _rank(test: str) -> int:
    places = (place for place, first in enumerate(FIRST) if test.startswith(first))
    return next(places, len(FIRST))
