"""Moving dead letters back: in order, and not past a message that is in flight."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.errors import QueueNotFound, TooOld
from mq.names import MessageId, QueueName
from mq.store.moving.redrive import Redriven
from mq_sqs.fifo.moving import OrderedMove
from mq_sqs.tasks.move_tasks import MoveTasks
from mq_sqs.tasks.task_notes import TaskStatus, tasks_of
from tests.support.fifo import DEAD_LINE, LINE, FifoLine, bodies_of, fifo_on
from tests.support.messages import names_in, pass_a_tick
from tests.support.stores import eventually

POLICY = {"max-receives": "1", "dead-letters": DEAD_LINE}
THIRD = QueueName("third.fifo")


async def bury(line: FifoLine, *messages: tuple[str, str]) -> None:
    """Send messages, and let each of them die at once."""
    await line.store.create_queue(DEAD_LINE)
    await line.store.change_settings(LINE, POLICY)
    await line.send_all(*messages)
    while taken := await line.receive(10):
        for each in taken:
            await line.show(each)


async def move(line: FifoLine, limit: int = 10, target: QueueName | None = None) -> Redriven:
    return await line.service.move(OrderedMove(DEAD_LINE, target, limit, frozenset()))


async def test_dead_letters_come_back_in_their_order_before_later_messages(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "b"), ("3", "a"))
        await line.send("4", "a")
        await line.store.change_settings(LINE, {"max-receives": ""})

        assert len((await move(line)).moved) == 3

        assert bodies_of(await line.receive(3)) == ["1", "3", "4"]
        assert await line.bodies() == ["2"]
        assert names_in(root / "queues" / DEAD_LINE) == []


async def test_no_more_are_moved_than_were_asked_for(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "a"), ("3", "a"))

        assert [len((await move(line, 2)).moved) for _ in range(3)] == [2, 1, 0]

        await line.store.change_settings(LINE, {"max-receives": ""})
        assert await line.drain() == ["1", "2", "3"]


async def test_a_group_with_a_message_in_flight_stays(root: Path) -> None:
    """That message may come back, and is before the others."""
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "a"), ("3", "b"))
        dead = FifoLine(line.store, DEAD_LINE)
        dead.service = line.service
        [first] = await dead.receive()

        assert len((await move(line)).moved) == 1

        assert await line.bodies() == ["3"]
        await dead.show(first)
        assert len((await move(line)).moved) == 2
        assert await line.bodies(1) == ["1"]


async def test_who_waits_for_a_group_gets_what_was_moved(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"))
        await line.store.create_queue(THIRD)
        third = FifoLine(line.store, THIRD)
        third.service = line.service
        assert await third.bodies() == []

        await move(line, target=THIRD)

        assert await third.drain() == ["1"]


async def test_a_message_that_never_died_is_reported_and_those_that_did_go_home(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"))
        dead = FifoLine(line.store, DEAD_LINE)
        dead.service = line.service
        sent = await dead.send("2", "b")

        assert len((await move(line)).moved) == 1
        assert (await move(line)).lost == [sent.message_id]


async def test_a_passed_message_keeps_its_group_and_no_other(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "a"), ("3", "b"))
        first = MessageId(min(names_in(root / "queues" / DEAD_LINE)))

        found = await line.service.move(OrderedMove(DEAD_LINE, None, 10, frozenset({first})))

        assert len(found.moved) == 1
        assert await line.bodies() == ["3"]


async def test_a_long_group_that_stays_keeps_no_other(root: Path) -> None:
    """The task of a queue asks for fewer messages at a time than such a group may have."""
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "b"), ("3", "a"), ("4", "a"), ("5", "b"), ("6", "c"))
        first, second = sorted(names_in(root / "queues" / DEAD_LINE))[:2]
        passed = frozenset({MessageId(first), MessageId(second)})

        found = await line.service.move(OrderedMove(DEAD_LINE, None, 1, passed))

        assert len(found.moved) == 1
        assert await line.bodies() == ["6"]


async def test_a_home_that_is_gone_is_reported(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"))
        await line.store.delete_queue(LINE)

        with pytest.raises(QueueNotFound):
            await move(line)

        assert len(names_in(root / "queues" / DEAD_LINE)) == 1


async def test_what_its_queue_would_remove_at_once_stays(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "b"))
        await line.store.change_settings(LINE, {"ttl": "0.000001", "max-receives": ""})
        pass_a_tick()

        with pytest.raises(TooOld, match=LINE):
            await move(line)

        await line.store.change_settings(LINE, {"ttl": ""})
        assert len((await move(line)).moved) == 2
        assert await line.drain() == ["1", "2"]


async def test_a_dead_letter_keeps_nobody_from_sending_under_its_id_to_the_dead_letters(
    root: Path,
) -> None:
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"))

    async with fifo_on(root) as line:
        assert (await line.send("1")).is_duplicate
        line.queue = DEAD_LINE
        assert not (await line.send("1")).is_duplicate


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_is_moved_counts_as_sent_where_it_was_sent_and_nowhere_else(
    root: Path, is_restarted: bool, is_removed: bool
) -> None:
    async with fifo_on(root) as line:
        for queue in (DEAD_LINE, THIRD):
            await line.store.create_queue(queue)
        line.queue = DEAD_LINE
        first = await line.send("1")
        await move(line, target=LINE)
        back = OrderedMove(LINE, THIRD, 10, frozenset())
        assert len((await line.service.move(back)).moved) == 1
        line.queue = THIRD
        if is_removed:
            assert await line.drain() == ["1"]
        if not is_restarted:
            await check_is_sent_to(line, DEAD_LINE, first.message_id)

    async with fifo_on(root) as line:
        if is_restarted:
            await check_is_sent_to(line, DEAD_LINE, first.message_id)


async def check_is_sent_to(line: FifoLine, home: QueueName, first: MessageId) -> None:
    """Send the message again to each queue."""
    for queue in (DEAD_LINE, LINE, THIRD):
        line.queue = queue
        again = await line.send("1")
        assert (again.message_id == first, again.is_duplicate) == (queue == home,) * 2, queue


@pytest.mark.parametrize("home", [DEAD_LINE, LINE])
async def test_what_dies_where_it_was_moved_to_counts_as_sent_where_it_was_sent(
    root: Path, home: QueueName
) -> None:
    """One was sent to the dead letters, moved, and died; the other died, was moved, and died again:
    a gateway that starts knows it only from the file."""
    async with fifo_on(root) as line:
        await bury(line)
        line.queue = home
        first = await line.send("1")
        if home == LINE:
            await die(line)
        line.queue = THIRD if home == LINE else LINE
        await line.store.create_queue(THIRD)
        await line.store.change_settings(THIRD, POLICY)
        await move(line, target=line.queue)
        await die(line)
        died_in = line.queue

    async with fifo_on(root) as line:
        await check_is_sent_to(line, home, first.message_id)
        line.queue = DEAD_LINE
        [letter, *_] = await line.receive(10)
        assert letter.message_id == first.message_id
        assert letter.burial is not None
        assert letter.burial.queue == died_in


async def die(line: FifoLine) -> None:
    [taken] = await line.receive()
    await line.show(taken)


async def test_a_task_moves_all_that_were_there(root: Path) -> None:
    async with fifo_on(root) as line:
        await bury(line, *((str(number), "ab"[number % 2]) for number in range(8)))
        tasks = MoveTasks(line.store, line.service)

        assert await tasks.start(DEAD_LINE, None, None) is not None

        async def is_over() -> bool:
            [task] = tasks_of(await line.store.read_settings(DEAD_LINE))
            return task.status is TaskStatus.COMPLETED and task.moved == 8

        await eventually(is_over)
        await tasks.stop()
        assert len(names_in(root / "queues" / LINE)) == 8


async def test_a_task_waits_while_a_queue_is_full(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq_sqs.tasks.move_tasks.RETRY_SECONDS", 0.01)
    async with fifo_on(root) as line:
        await bury(line, *((str(number), "a") for number in range(6)))
        await line.store.change_settings(LINE, {"max-messages": "2", "max-receives": ""})
        tasks = MoveTasks(line.store, line.service)
        found: list[str] = []

        await tasks.start(DEAD_LINE, None, None)

        async def is_over() -> bool:
            found.extend(await line.drain())
            [task] = tasks_of(await line.store.read_settings(DEAD_LINE))
            return task.status is TaskStatus.COMPLETED

        await eventually(is_over)
        found.extend(await line.drain())
        await tasks.stop()
        assert found == list("012345")


async def test_a_task_looks_once_more_at_a_group_whose_first_message_was_held(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq_sqs.tasks.move_chunks.LOOK_AGAIN_SECONDS", 0.0)
    async with fifo_on(root) as line:
        await bury(line, ("1", "a"), ("2", "a"), ("3", "b"))
        await line.store.change_settings(LINE, {"max-receives": ""})
        folder = root / "queues" / DEAD_LINE
        held = os.open(folder / min(names_in(folder)), os.O_RDONLY)
        line.store._work.files.lock(held)
        move_in_order, left = line.service.move, [held]

        async def let_go_once_the_rest_is_moved(asked: OrderedMove) -> Redriven:
            found = await move_in_order(asked)
            if left and not found.moved and not found.stayed:
                os.close(left.pop())
            return found

        monkeypatch.setattr(line.service, "move", let_go_once_the_rest_is_moved)
        tasks = MoveTasks(line.store, line.service)

        await tasks.start(DEAD_LINE, None, None)

        async def is_over() -> bool:
            return DEAD_LINE not in tasks._running

        await eventually(is_over)
        [task] = tasks_of(await line.store.read_settings(DEAD_LINE))
        assert (task.status, task.moved) == (TaskStatus.COMPLETED, 3)
        assert await line.drain() == ["1", "2", "3"]
