"""File calls that operations yield: made in one go for a round."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

import pytest

from mq.commit import engine
from mq.commit.barrier import Barrier, Unsynced
from mq.commit.blocking import BlockingCommitter
from mq.commit.memory import MemoryCommitter
from mq.commit.operation import SETTLED, Operation
from mq.disk.calls import CLOSE, LINK, OPEN_UNNAMED, STATUS, STATUS_OF, Outcome, check
from mq.disk.file_work import FileCalls, make_calls
from mq.lifecycle import Folder
from tests.support.commits import Bench


@pytest.mark.parametrize("driver", ["group", "memory", "blocking"])
async def test_file_calls_are_answered_with_their_outcome(bench: Bench, driver: str) -> None:
    new = bench.spool.fd(Folder.NEW)

    def work() -> Operation[list[Any]]:
        made = yield FileCalls(bench.files, ((OPEN_UNNAMED, new, 0o600), (LINK, ~0, new, "a")))
        again = yield FileCalls(bench.files, ((LINK, made[0][0], new, "a"), (CLOSE, made[0][0])))
        bench.files.close(made[0][0])
        yield SETTLED
        yield Unsynced((), (Folder.NEW,))
        return [made[1], *again]

    if driver == "group":
        answer = await bench.committer.run(work())
    elif driver == "memory":
        memory = MemoryCommitter(lambda: None, lambda: None, bench.workers)
        answer = await memory.run(work())
        await memory.close()
    else:
        blocking = BlockingCommitter(Barrier(bench.spool))
        answer = blocking.run(work())
        blocking.close()

    assert answer == [0, [], errno.EEXIST]
    assert "a" in bench.names()


async def test_the_file_calls_of_a_round_are_made_in_one_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(needed: Sequence[FileCalls]) -> list[Outcome]:
        made.append(len(needed))
        return make_calls(needed)

    monkeypatch.setattr(engine, "make_calls", counted)
    new = bench.spool.fd(Folder.NEW)

    def work(name: str) -> Operation[None]:
        chain = ((OPEN_UNNAMED, new, 0o600), (LINK, ~0, new, name), (CLOSE, ~0))
        check((yield FileCalls(bench.files, chain)))
        yield Unsynced((), (Folder.NEW,))
        check((yield FileCalls(bench.files, ((STATUS_OF, new, name),))))

    gate = await bench.hold_barrier()
    tasks = [asyncio.create_task(bench.committer.run(work(name))) for name in "abc"]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)

    assert made == [3, 3]


async def test_calls_that_cannot_be_made_fail_those_who_asked(bench: Bench) -> None:
    def work() -> Operation[None]:
        yield FileCalls(bench.files, ((OPEN_UNNAMED, "no descriptor", 0o600),))

    with pytest.raises(TypeError):
        await bench.committer.run(work())
    assert await bench.committer.run(bench.put("1")) == "1"


async def test_nobody_is_between_two_file_calls_when_another_is_settled(bench: Bench) -> None:
    steps: list[str] = []
    new = bench.spool.fd(Folder.NEW)

    def work(name: str) -> Operation[None]:
        steps.append(f"{name} begins")
        yield FileCalls(bench.files, ((STATUS, new),))
        yield FileCalls(bench.files, ((STATUS, new),))
        steps.append(f"{name} ends")

    def settled() -> Operation[None]:
        yield SETTLED
        steps.append("settled")

    gate = await bench.hold_barrier()
    operations = [work("a"), settled(), work("b"), settled()]
    tasks = [asyncio.create_task(bench.committer.run(each)) for each in operations]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*tasks)

    assert steps == ["a begins", "b begins", "a ends", "b ends", "settled", "settled"]
