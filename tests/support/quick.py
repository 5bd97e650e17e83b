"""Which tests `make quick` runs: those with the mark `quick`, which nobody sets by hand.

They start no server, mount nothing, and are marked neither `slow` nor `crash_long`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PLACES = (
    "tests/test_", "tests/admin/", "tests/client/", "tests/commit/", "tests/ctl/ways/test_by_root",
    "tests/disk/",
    "tests/ctl/ways/test_inspect", "tests/ctl/test_visit", "tests/fsck/", "tests/http/test_bodies",
    "tests/http/test_parameters", "tests/http/test_quick_", "tests/http/test_routes",
    "tests/http/connections/test_quick_",
    "tests/lines/", "tests/mover/", "tests/reaper/", "tests/spool/",
    "tests/sqs/messages/test_handles", "tests/sqs/messages/test_message_",
    "tests/sqs/queues/test_addresses", "tests/sqs/queues/test_queue_", "tests/sqs/test_model",
    "tests/store/", "tests/tidy/",
    "tests/vsqs/",
)  # fmt: skip
"""Elsewhere nearly every test starts a process, or takes long."""

SLOW_FIXTURES = frozenset({"processes", "start_shared", "loop_mount", "public_folder"})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files that have no quick test: to know all tests takes longer than to run some."""
    if config.option.markexpr != "quick" or config.rootpath not in collection_path.parents:
        return None
    name = str(collection_path.relative_to(config.rootpath)) + "/" * collection_path.is_dir()
    can_have_some = any(name.startswith(place) or place.startswith(name) for place in PLACES)
    return None if can_have_some else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_quick(item):
            item.add_marker("quick")


def is_quick(item: pytest.Item) -> bool:
    return (
        item.nodeid.startswith(PLACES)
        and SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        and not any(map(item.get_closest_marker, ("slow", "crash_long")))
    )
