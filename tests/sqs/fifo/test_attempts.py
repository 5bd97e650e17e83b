"""A receive that is asked again is answered the same, as long as nothing has happened to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mq.errors import LeaseMismatch
from mq.names import MessageId
from mq.store.receiving.received_message import Received
from mq_sqs.calls import Operations, Result
from mq_sqs.fifo import attempts
from mq_sqs.fifo.attempts import ATTEMPT_SECONDS, Attempts
from mq_sqs.operations import receiving
from mq_sqs.queues.addresses import Addressing
from tests.support.fifo import LINE, FifoLine, bodies_of, fifo_on
from tests.support.gateways import run
from tests.support.redelivery import move_due
from tests.support.waiting import parked

HOUR = 3600.0


def message(number: int, length: int = 1) -> Received:
    return Received(LINE, MessageId(str(number)), length, None, None, 7, 1, 0, 0, b"")


async def attempt(line: FifoLine, name: str = "a") -> list[Received]:
    """What a client is answered that sends the id of its attempt."""
    known = line.service.attempts.find(LINE, name)
    if known is not None and await line.service.renew(LINE, known, HOUR):
        return list(known.received)
    found = await line.receive(10)
    line.service.attempts.keep(LINE, name, found, [each.body or b"" for each in found])
    return found


async def test_the_same_attempt_gets_the_same_messages_under_the_same_leases(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"), ("3", "b"))
        first = await attempt(line)
        await line.send("4", "c")
        stamp = root / "delay" / f"{LINE}:{first[0].message_id}"
        before = stamp.stat().st_mtime

        assert [each.lease for each in await attempt(line)] == [each.lease for each in first]
        assert stamp.stat().st_mtime > before
        assert bodies_of(await attempt(line, "b")) == ["4"]
        for each in first:
            await line.remove(each)
        assert await line.bodies() == []


async def receive(operations: Operations, **values: Any) -> Result:
    attempt = {"QueueUrl": LINE, "ReceiveRequestAttemptId": "a"}
    return await run(operations, "ReceiveMessage", **attempt, **values)


async def test_a_call_that_found_nothing_is_answered_what_another_of_its_attempt_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has sent the second one while the first, on a connection that is broken, waited
    before it."""
    async with fifo_on(root) as line:
        operations = Operations(line.store, Addressing(), 30.0)
        line.service = operations.fifo
        await line.send("1")
        overtaking: list[Result] = []

        async def be_overtaken(*_arguments: Any, **_more: Any) -> list[Received]:
            monkeypatch.undo()
            overtaking.append(await receive(operations))
            return []

        monkeypatch.setattr(receiving, "_take", be_overtaken)
        found = await receive(operations)

        assert [each["Body"] for each in found["Messages"]] == ["1"]
        assert [found] == overtaking


async def test_a_call_that_waits_is_answered_with_another_of_its_attempt(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stay(_request: object, work: Awaitable[Any], _hurry: object) -> Any:
        return await work

    monkeypatch.setattr(receiving, "unless_client_leaves", stay)
    monkeypatch.setattr(receiving, "MAX_WAIT_SECONDS", HOUR)
    async with asyncio.timeout(30), fifo_on(root) as line:
        operations = Operations(line.store, Addressing(), 30.0)
        line.service = operations.fifo
        calls = [asyncio.create_task(receive(operations, WaitTimeSeconds=HOUR)) for _ in range(2)]
        await parked(line.store, 2, LINE)

        await line.send("1")
        found, again = await asyncio.gather(*calls)

        assert [each["Body"] for each in found["Messages"]] == ["1"]
        assert again == found
        assert not operations.fifo.attempts._polls


async def delete(line: FifoLine, received: Received) -> None:
    await line.remove(received)


async def delete_many(line: FifoLine, received: Received) -> None:
    leases = frozenset({received.lease})
    await line.remove_many([received.message_id], leases)


async def show(line: FifoLine, received: Received) -> None:
    assert await line.show(received)


async def hide(line: FifoLine, received: Received) -> None:
    service = line.service
    assert await service.change_visibility(LINE, received.message_id, received.lease, HOUR)


@pytest.mark.parametrize("change", [delete, delete_many, show, hide])
async def test_it_is_a_new_receive_once_a_message_was_deleted_or_changed(
    root: Path, change: Callable[[FifoLine, Received], Awaitable[None]]
) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "b"))
        first = await attempt(line)

        await change(line, first[0])

        assert bodies_of(await attempt(line)) == (["1"] if change is show else [])


@pytest.mark.parametrize("way", ["remove", "remove_many", "show"])
async def test_an_older_receipt_handle_ends_no_attempt(root: Path, way: str) -> None:
    """The earlier receiver is refused, and the current one may ask again."""
    async with fifo_on(root) as line:
        await line.send("1")
        [late] = await line.receive()
        os.utime(root / "delay" / f"{LINE}:{late.message_id}", ns=(0, 0))
        move_due(root)
        first = await attempt(line)

        if way == "show":
            assert not await line.show(late)
        elif way == "remove_many":
            leases = frozenset({late.lease})
            [refused] = await line.remove_many([late.message_id], leases)
            assert isinstance(refused, LeaseMismatch)
        else:
            with pytest.raises(LeaseMismatch):
                await line.remove(late)

        assert [each.lease for each in await attempt(line)] == [each.lease for each in first]


async def test_it_is_a_new_receive_once_messages_came_back(root: Path) -> None:
    """If some came back, the others come with them, in their order."""
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        first = await attempt(line)
        os.utime(root / "delay" / f"{LINE}:{first[1].message_id}", ns=(0, 0))
        move_due(root)

        again = await attempt(line)

        assert bodies_of(again) == ["1", "2"]
        assert not {each.lease for each in again} & {each.lease for each in first}


async def test_a_gateway_that_starts_knows_no_attempts(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send("1")
        await attempt(line)

    async with fifo_on(root) as line:
        assert await attempt(line) == []


def test_an_attempt_is_kept_for_five_minutes_from_its_first_answer() -> None:
    now = 0.0
    known = Attempts(lambda: now)
    known.keep(LINE, "a", [message(1)], [b""])

    now = ATTEMPT_SECONDS - 1
    assert known.find(LINE, "a") is not None
    now = ATTEMPT_SECONDS
    assert known.find(LINE, "a") is None
    assert (len(known._attempts), known._bytes, known._of_message) == (0, 0, {})


def test_an_empty_answer_is_not_kept() -> None:
    known = Attempts()
    known.keep(LINE, "a", [message(1)], [b""])

    known.keep(LINE, "a", [], [])

    assert known.find(LINE, "a") is None


def test_the_oldest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_ATTEMPTS", 3)
    monkeypatch.setattr(attempts, "MAX_ATTEMPT_BYTES", 100)
    known = Attempts()

    for number in range(5):
        known.keep(LINE, str(number), [message(number)], [b""])
    assert [known.find(LINE, str(at)) is not None for at in range(5)] == [False] * 2 + [True] * 3
    known.keep(LINE, "long", [message(9, 99)], [b""])
    assert [known.find(LINE, each) is not None for each in ("2", "3", "4", "long")] == [
        False, False, True, True,
    ]  # fmt: skip
    known.keep(LINE, "too long", [message(10, 101)], [b""])
    assert known.find(LINE, "too long") is None


def test_a_message_that_another_attempt_got_is_not_in_the_first_any_more() -> None:
    known = Attempts()
    known.keep(LINE, "a", [message(1)], [b""])
    known.keep(LINE, "b", [message(1)], [b""])

    known.forget(LINE, [MessageId("1")])

    assert known.find(LINE, "b") is None
