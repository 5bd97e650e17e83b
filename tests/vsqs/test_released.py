"""VSQS: programs for the released vsqs 0.3, and the folders that it leaves."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.vsqs import OpenQueue, Other, names_in
from vsqs import queue as vsqs_queue
from vsqs.queue import Queue, QueueFullException, QueueManager


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_program_of_the_released_package_goes_on(tmp_path: Path) -> None:
    with (
        closing(QueueManager(str(tmp_path / "queues"))) as manager,
        closing(manager.get_queue("orders", capacity=1)) as orders,
    ):
        message_id = orders.publish(b"two coffees", timeout=5)
        with pytest.raises(QueueFullException):
            orders.publish(b"a tea", timeout=0)
        assert orders.size() == 1
        assert orders.receive(visibility_timeout=10, timeout=1) == (message_id, b"two coffees")
        orders.delete(message_id)
        assert orders.receive(timeout=0.01) == (None, None)

    assert len(message_id) == 16
    assert os.listdir(tmp_path / "queues") == ["orders"]


def test_a_test_of_a_program_sets_the_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vsqs_queue, "micros", lambda: 0)
    with QueueManager(folder.parent).get_queue(folder.name) as opened:
        ids = [opened.publish(b""), opened.publish(b"")]
        assert ids == ["0", "1"]
        assert opened.receive(visibility_timeout=1)[0] == "0"
        assert "0.1000000" in names_in(folder)

        monkeypatch.setattr(vsqs_queue, "micros", lambda: 1_000_000)

        assert opened.receive(visibility_timeout=1)[0] == "0"


def test_a_folder_of_the_released_package_is_used_in_its_unit(
    open_queue: OpenQueue, folder: Path
) -> None:
    folder.mkdir()
    other = Other(folder, "us")
    first, second = other.publish(b"first"), other.publish(b"second")
    assert other.receive() == (first, b"first")

    ours = open_queue()
    third = ours.publish(b"third")

    assert int(third) > int(second)
    assert ours.receive() == (second, b"second")
    assert other.receive(visibility_seconds=0.01) == (third, b"third")
    assert ours.receive(timeout=10) == (third, b"third")
    assert (other.receive(), ours.receive(timeout=0)) == (None, (None, None))


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_an_empty_folder_keeps_its_unit(open_queue: OpenQueue, unit: str) -> None:
    opened = open_queue(unit=unit)
    opened.delete(opened.publish(b""))

    assert len(open_queue().publish(b"")) == {"ms": 13, "us": 16}[unit]


def test_a_file_from_elsewhere_changes_no_unit(queue: Queue, folder: Path) -> None:
    queue.delete(queue.publish(b""))
    (folder / "1795254564798000").touch()
    with pytest.warns(UserWarning, match="unit='us'"), Queue(folder) as opened:
        opened.receive(visibility_timeout=10, timeout=0)

    assert len(names_in(folder)[0].partition(".")[2]) == 13
