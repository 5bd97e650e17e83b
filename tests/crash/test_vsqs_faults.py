"""VSQS: every system call of every operation fails in turn."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.disk.files import Files
from tests.crash.faults.kernel import SHORT_WRITE, Fault, Kernel
from tests.support.descriptors import open_descriptors
from tests.support.vsqs import names_in
from vsqs.queue import Queue, QueueFullException

SHORT = [Fault(code, lasts) for code in (errno.EIO, errno.ENOSPC) for lasts in (False, True)]
LONG = [
    Fault(code, lasts)
    for code in (errno.EMFILE, errno.EDQUOT, errno.EROFS, errno.ESTALE, errno.EINTR)
    for lasts in (False, True)
]
FAULTS = [*SHORT, *(pytest.param(fault, marks=pytest.mark.crash_long) for fault in LONG)]


class VsqsFaultLedger:
    """What was sent, and what a queue promised of it."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.folder = folder
        self.files = files
        self.queue = Queue(folder, files=files)
        self._sent = 0
        self.promised: dict[str, bytes] = {}
        self.sent: set[bytes] = set()
        self.deleted: set[str] = set()
        self.perhaps_deleted: set[str] = set()

    def publish(self) -> None:
        self._sent += 1
        body = b"message %d" % self._sent
        self.sent.add(body)
        self.promised[self.queue.publish(body)] = body

    def receive(self) -> None:
        message_id, body = self.queue.receive(visibility_timeout=1000, timeout=0)
        assert message_id is None or self.promised.get(message_id, body) == body

    def requeue(self) -> None:
        self.queue.receive(visibility_timeout=0, timeout=0)
        self.queue.receive(visibility_timeout=0, timeout=0)

    def delete(self) -> None:
        message_id = next(iter(self.promised))
        self.perhaps_deleted.add(message_id)
        del self.promised[message_id]
        self.queue.delete(message_id)
        self.deleted.add(message_id)

    def open(self) -> None:
        self.queue.close()
        self.queue = Queue(self.folder, files=self.files)

    def check(self) -> None:
        on_disk = {
            name.partition(".")[0]: (self.folder / name).read_bytes()
            for name in names_in(self.folder)
            if not name.endswith(".new")
        }
        assert self.promised.items() <= on_disk.items()
        assert set(on_disk.values()) <= self.sent
        assert not self.deleted & on_disk.keys()
        assert len(on_disk) == len([n for n in names_in(self.folder) if not n.endswith(".new")])


OPERATIONS: dict[str, Callable[[VsqsFaultLedger], None]] = {
    "publish": VsqsFaultLedger.publish,
    "receive": VsqsFaultLedger.receive,
    "requeue": VsqsFaultLedger.requeue,
    "delete": VsqsFaultLedger.delete,
    "open": VsqsFaultLedger.open,
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_failing_call_breaks_a_promise(
    disk: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: Fault
) -> None:
    _sweep(disk, monkeypatch, name, fault)


def test_no_short_write_breaks_a_promise(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _sweep(disk, monkeypatch, "publish", Fault(SHORT_WRITE, lasts=True))


def _sweep(disk: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: Fault) -> None:
    kernel = Kernel(monkeypatch)
    ledger = VsqsFaultLedger(disk, kernel.beneath(Files()))
    for _ in range(3):
        ledger.publish()
    before = open_descriptors()
    index = 0

    while True:
        ledger.publish()
        kernel.arm(fault, index)
        # Whatever it raised, it said so; a success is checked below.
        with suppress(OSError, QueueFullException):
            OPERATIONS[name](ledger)
        kernel.relieve()
        ledger.check()
        if name == "open":
            ledger.open()
        ledger.publish()
        assert ledger.queue.size() >= len(ledger.promised)
        assert open_descriptors() == before, f"{fault} at call {index}"
        if not kernel.struck:
            break
        index += 1

    assert index > 0
    ledger.queue.close()
