"""Every system call of every operation fails once, with every error that it can have: over HTTP,
on a real disk."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

import pytest

from mq.disk.files import Files
from tests.crash.faults.errors import FIRST_OF_LONG
from tests.crash.faults.kernel import Fault, Kernel
from tests.crash.faults.operations import OPERATIONS, Operation
from tests.crash.faults.service import Service, open_but_for_queues, service_on
from tests.crash.load import LoadAnswer, ServerGone
from tests.support.faults import OldFiles
from tests.support.figures import PrintFigures


@pytest.mark.parametrize("name", OPERATIONS)
async def test_no_failing_call_breaks_a_promise(
    disk: Path, kernel: Kernel, name: str, fault: Fault, print_figures: PrintFigures
) -> None:
    calls = await _sweep(disk, kernel, Files(), OPERATIONS[name], fault)
    if fault == FIRST_OF_LONG:
        print_figures("System calls of each operation that failed in turn", f"{calls:>4} {name}")


@pytest.mark.crash_long
@pytest.mark.parametrize("name", OPERATIONS)
async def test_file_system_without_rename_flags_and_unnamed_files_keeps_promises(
    disk: Path, kernel: Kernel, name: str, fault: Fault
) -> None:
    """A move between queues may leave its message in both."""
    await _sweep(disk, kernel, OldFiles(), OPERATIONS[name], fault)


@pytest.mark.crash_long
@pytest.mark.parametrize("name", OPERATIONS)
async def test_root_in_memory_keeps_promises(
    quick_folder: Path, kernel: Kernel, name: str, fault: Fault
) -> None:
    """Without a barrier, and on the event loop."""
    root = Path(mkdtemp(dir=quick_folder))
    await _sweep(root, kernel, Files(), OPERATIONS[name], fault)


async def test_the_calls_on_messages_are_among_those_that_fail(disk: Path, kernel: Kernel) -> None:
    """They are those of chains, which the native part would make out of sight."""
    made: dict[str, set[str]] = {}
    async with service_on(disk, kernel.beneath(Files())) as service:
        for name in ("publish", "receive", "remove under its lease"):
            await _run(service, kernel, OPERATIONS[name], None, 0)
            made[name] = {*kernel.calls}

    assert made["publish"] >= {"open", "write", "setxattr", "link", "fsync", "renameat2"}
    assert made["receive"] >= {"pread", "getxattr", "setxattr", "utime", "renameat2"}
    assert "renameat2" in made["remove under its lease"]


async def _sweep(
    root: Path, kernel: Kernel, files: Files, operation: Operation, fault: Fault
) -> int:
    """Returns how many calls there are."""
    async with service_on(root, kernel.beneath(files)) as service:
        service.ledger.may_keep_names = operation.is_move and not files.renames_without_replacing
        await _run(service, kernel, operation, None, 0)
        calls, places = len(kernel.calls), kernel.places(fault.code)
        await service.serves_again(1000)
        descriptors = open_but_for_queues()
        assert calls
        for index in range(places):
            answer = await _run(service, kernel, operation, fault, index)
            where = f"{fault} at call {index} of {places}, {kernel.struck[:1]}"
            if answer is None:
                # The answer had begun, with its length: only closing tells the client.
                assert (operation.request.method, kernel.struck[0]) == ("GET", "pread"), where
            else:
                _check(answer, operation, fault, kernel, where)
            await service.serves_again(descriptors)
        await service.batches_are_swept()
        await service.hand_out_all(service.ledger)
        assert list(root.glob("queues/*/[!.]*")) == [], "messages out of reach"
    async with service_on(root, Files()) as fresh:
        await fresh.hand_out_all(service.ledger)
    assert fresh.ledger.violations(root) == []
    assert os.listdir(root / "new") == []
    assert not (root / "corrupt").exists()
    return calls


async def _run(
    service: Service, kernel: Kernel, operation: Operation, fault: Fault | None, index: int
) -> LoadAnswer | None:
    known = await operation.before(service)
    kernel.arm(fault, index)
    try:
        return await service.send(operation.request.about(**known), f"{fault} at {index}")
    except ServerGone:
        return None
    finally:
        kernel.relieve()


def _check(
    answer: LoadAnswer, operation: Operation, fault: Fault, kernel: Kernel, where: str
) -> None:
    if answer.status in operation.answers:
        return
    assert answer.status == 503, f"{where}: {answer}"
    assert int(answer.headers["retry-after"]) >= 1, where
    assert kernel.struck, where
