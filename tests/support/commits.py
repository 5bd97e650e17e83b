"""A committer over a spool, with the operations that the tests run on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from mq.commit.barrier import Barrier, Unsynced
from mq.commit.gathering import Gathering
from mq.commit.group import GroupCommitter
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import Operation
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.spool.spool import Spool
from tests.support.faults import SYNCS, Gate, SuspiciousFiles, WatchedFiles
from tests.support.messages import names_in


class Bench:
    def __init__(
        self,
        spool: Spool,
        files: WatchedFiles,
        gathering: Gathering | None = None,
        light_rounds: LightRounds | None = None,
    ) -> None:
        self.spool = spool
        self.files = files
        self.light_rounds = light_rounds or LightRounds()
        self.rounds = 0
        self.syncs_when_calls_ended: list[int] = []
        self.workers = ThreadPoolExecutor(2)
        self.committer = GroupCommitter(
            Barrier(spool),
            self._begin,
            self._end_calls,
            spool.reopen,
            self.workers,
            gathering=gathering,
            light_rounds=light_rounds,
        )
        self.committer.start()

    def _begin(self) -> None:
        self.rounds += 1

    def _end_calls(self) -> None:
        self.syncs_when_calls_ended.append(self.files.syncs())

    def put(self, name: str) -> Operation[str]:
        """Make a file in `new`; taken back if it cannot be made durable."""
        files, new = self.files, self.spool.fd(Folder.NEW)
        fd = files.open_unnamed(new, 0o600)
        try:
            files.link(fd, new, name)
            try:
                yield Unsynced((fd,), (Folder.NEW,))
            except StoreUnavailable:
                files.unlink(new, name)
                raise
            return name
        finally:
            files.close(fd)

    def start(self, *names: str) -> list[asyncio.Task[str]]:
        return [asyncio.create_task(self.committer.run(self.put(name))) for name in names]

    async def hold_barrier(self) -> Gate:
        """Let one operation, `first`, come as far as its barrier."""
        gate = self.files.hold_back(*SYNCS)
        self.start("first")
        await gate.reached()
        return gate

    def names(self) -> list[str]:
        return names_in(self.spool.root / "new")


async def be_fast(bench: Bench) -> None:
    """Wait until the thread is idle, and let the next round be the event loop's."""
    make_fast(bench)
    while bench.committer._thread.at_work.locked():
        await asyncio.sleep(0.001)


def make_fast(bench: Bench) -> None:
    for _ in range(1000):
        bench.light_rounds.note(0.0)


def make_slow(bench: Bench) -> None:
    bench.light_rounds.note(1e9)


async def is_back(bench: Bench) -> bool:
    """Return whether operations succeed again."""
    try:
        await bench.committer.run(bench.put("again"))
    except StoreUnavailable:
        return False
    return True


@asynccontextmanager
async def open_bench(
    spool: Spool,
    files: WatchedFiles,
    gathering: Gathering | None = None,
    light_rounds: LightRounds | None = None,
) -> AsyncIterator[Bench]:
    files.calls.clear()
    made = Bench(spool, files, gathering, light_rounds)
    try:
        yield made
    finally:
        await made.committer.close()
        made.workers.shutdown()
        assert isinstance(files, SuspiciousFiles)
        assert files.retried == []


async def take_off(
    bench: Bench, failure: BaseException | None = None
) -> tuple[Gate, list[asyncio.Task[str]]]:
    """Let a barrier be in flight, with the operations `1` and `2` behind it. Once the gate is
    opened, it ends by that failure."""
    gate, left = Gate(), [failure]

    def hold(*arguments: object) -> None:
        gate.wait(*arguments)
        if left and (error := left.pop()) is not None:
            raise error

    bench.files.before |= dict.fromkeys(SYNCS, hold)
    tasks = bench.start("1", "2")
    await gate.reached()
    return gate, tasks


async def gather(bench: Bench, *names: str) -> list[asyncio.Task[str]]:
    """Let operations make their file calls while a barrier is in flight."""
    tasks = bench.start(*names)
    async with asyncio.timeout(20):
        while not set(names) <= set(bench.names()):
            await asyncio.sleep(0.001)
    return tasks


def note_syncs_before_reopening(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, whenever the store is reopened, how many syncs there were before."""
    syncs: list[int] = []
    reopen = bench.committer._barrier.reopen

    def noted() -> None:
        syncs.append(bench.files.syncs())
        reopen()

    monkeypatch.setattr(bench.committer._barrier, "reopen", noted)
    return syncs
