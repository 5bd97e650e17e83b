"""What of a queue is published and not delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.leftovers import Leftovers
from mq.spool.spool import Spool
from tests.support.messages import names_in, write_message

ORDERS = QueueName("orders")


@pytest.fixture
def new(spool: Spool) -> Path:
    """With a message, a batch and an upload of the queue, and a message of another one."""
    new = spool.root / "new"
    (spool.root / "queues" / ORDERS).mkdir(exist_ok=True)
    for name in ("orders:5", "ordersx:5"):
        write_message(new / name)
    for name in (".orders:0192", ".orders:0193.open"):
        (new / name).mkdir()
        write_message(new / name / "orders:6")
    return new


def leftovers(spool: Spool) -> Leftovers:
    return Leftovers(spool, ORDERS, lambda name, why: pytest.fail(f"{name}: {why}"))


def test_messages_and_sealed_batches_are_delivered(spool: Spool, new: Path) -> None:
    assert leftovers(spool).deliver()

    assert names_in(spool.root / "queues" / ORDERS) == ["5", "6"]
    assert names_in(new) == ["ordersx:5"]
    assert (new / ".orders:0193.open").is_dir()


@pytest.mark.parametrize("name", ["orders:5", ".orders:0192"], ids=["message", "batch"])
def test_what_somebody_holds_is_tried_again(spool: Spool, new: Path, name: str) -> None:
    files, found = spool.files, leftovers(spool)
    opening = files.open_folder if name.startswith(".") else files.open_message
    fd = opening(spool.fd(Folder.NEW), name)
    assert files.lock(fd)

    assert not found.deliver()
    write_message(new / "orders:7")
    files.close(fd)

    assert found.deliver()
    assert names_in(new) == ["orders:7", "ordersx:5"]


def test_what_another_sweep_has_written_again_is_tried_again(
    spool: Spool, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exchanged the message for its copy, and then an error of the disk stopped it."""
    files, found = spool.files, leftovers(spool)
    open_message = files.open_message

    def open_and_exchange(folder_fd: int, name: str) -> int:
        fd = open_message(folder_fd, name)
        if name == "orders:5":
            monkeypatch.undo()
            write_message(new / "copy").rename(new / name)
        return fd

    monkeypatch.setattr(files, "open_message", open_and_exchange)

    assert not found.deliver()
    assert found.deliver()
    assert names_in(spool.root / "queues" / ORDERS) == ["5", "6"]
