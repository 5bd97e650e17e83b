"""Sending: once within five minutes, in order, all of a batch or none."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mq.commit.operation import Operation, Together
from mq.disk.files import Files
from mq.errors import MessageNotFound, QueueNotFound, StoreUnavailable
from mq.ids import ServerIds
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.shared_state import Workspace
from mq_sqs.faults import SQSError
from mq_sqs.fifo.loading import HiddenMessage, read_coming
from mq_sqs.fifo.parameters import check_given, read_attempt_id, read_group, sequence_number
from mq_sqs.fifo.sending import send_in_order
from mq_sqs.fifo.using import use
from tests.support.fifo import DEAD_LINE, LINE, fifo_on, in_order
from tests.support.messages import names_in


async def test_a_message_that_is_sent_again_is_answered_with_the_first(root: Path) -> None:
    async with fifo_on(root) as line:
        first = await line.send("1", again="id")
        again = await line.send("another body", "another group", again="id")

        assert (again.message_id, again.is_duplicate) == (first.message_id, True)
        assert await line.drain() == ["1"]
        later = await line.send("1", again="id")
        assert (later.message_id, later.is_duplicate) == (first.message_id, True)
        assert await line.drain() == []


async def test_in_the_scope_of_a_group_another_group_may_repeat_it(root: Path) -> None:
    scope = {"sqs.deduplication-scope": "messageGroup"}
    async with fifo_on(root, notes=scope) as line:
        one, two = await line.send("1", "a", again="id"), await line.send("2", "b", again="id")
        again = await line.send("3", "b", again="id")

        assert one.message_id != two.message_id
        assert two.message_id == again.message_id
        assert await line.drain() == ["1", "2"]


async def test_another_scope_counts_for_what_was_sent_before(root: Path) -> None:
    async with fifo_on(root) as line:
        first = await line.send("1", "a", again="id")
        await line.store.change_settings(LINE, {"sqs.deduplication-scope": "messageGroup"})

        assert (await line.send("2", "a", again="id")).message_id == first.message_id
        assert (await line.send("3", "b", again="id")).message_id != first.message_id


async def test_of_the_same_at_the_same_time_one_is_sent(root: Path) -> None:
    async with fifo_on(root) as line:
        told = await asyncio.gather(*(line.send("1", again="id") for _ in range(20)))

        assert len({each.message_id for each in told}) == 1
        assert [each.is_duplicate for each in told].count(False) == 1
        assert await line.drain() == ["1"]


async def test_batches_with_the_same_messages_do_not_wait_for_each_other(root: Path) -> None:
    async with fifo_on(root) as line:
        one, two = await asyncio.gather(
            line.send_all(("1", "a"), ("2", "a")), line.send_all(("2", "a"), ("1", "a"))
        )

        assert [each.message_id for each in one] == [each.message_id for each in reversed(two)]
        assert len(await line.drain()) == 2


async def test_a_batch_keeps_its_order_and_sends_each_once(root: Path) -> None:
    async with fifo_on(root) as line:
        told = await line.send_all(("1", "a"), ("2", "a"), ("1", "a"), ("3", "a"))

        assert [each.is_duplicate for each in told] == [False, False, True, False]
        assert told[0].message_id == told[2].message_id
        assert await line.drain() == ["1", "2", "3"]


class FailingFiles(Files):
    """A disk that fails when `fails` says so."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = ""
        self.left = 0

    def _fail(self, call: str) -> None:
        if self.fails == call:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def link(self, *arguments: Any) -> None:
        self._fail("link")
        super().link(*arguments)

    def rename(self, *arguments: Any) -> None:
        self._fail("rename")
        super().rename(*arguments)


async def test_a_batch_that_fails_in_the_middle_is_not_sent_and_can_be_sent_again(
    root: Path,
) -> None:
    files = FailingFiles()
    async with fifo_on(root, files) as line:
        await line.send("0")
        files.fails, files.left = "link", 1
        with pytest.raises(StoreUnavailable):
            await line.send_all(("1", "a"), ("2", "a"), ("3", "a"))
        files.fails = ""

        assert os.listdir(root / "new") == []
        told = await line.send_all(("1", "a"), ("2", "a"), ("3", "a"))
        assert not any(each.is_duplicate for each in told)
        assert await line.drain() == ["0", "1", "2", "3"]


async def test_what_could_not_be_delivered_yet_keeps_those_behind_it(root: Path) -> None:
    files = FailingFiles()
    async with fifo_on(root, files) as line:
        files.fails = "rename"
        first = await line.send("1")
        assert names_in(root / "new") == [f"{LINE}:{first.message_id}"]
        assert await line.bodies() == []
        files.fails = ""
        await line.send("2")

        found: list[str] = []
        while len(found) < 2:  # until the sweep has delivered it
            found += await line.drain()
            await asyncio.sleep(0.01)
        assert found == ["1", "2"]


@pytest.mark.parametrize("has_room_for", [3, 2])
async def test_what_is_repeated_needs_no_room(root: Path, has_room_for: int) -> None:
    """One message is there, and a batch brings it again with two copies of a new one."""
    async with fifo_on(root, max_queue_messages=has_room_for) as line:
        first = await line.send("1")

        told = await line.send_all(("1", "a"), ("2", "a"), ("2", "a"))

        assert [each.is_duplicate for each in told] == [True, False, True]
        assert told[0].message_id == first.message_id
        assert await line.drain() == ["1", "2"]


async def test_a_full_queue_knows_what_was_sent_and_refuses_what_is_new(root: Path) -> None:
    async with fifo_on(root, max_queue_messages=1) as line:
        first = await line.send("1")

        assert (await line.send("1")).message_id == first.message_id
        [again] = await line.service.send(LINE, [in_order("1", "a", "1")])
        assert (again.message_id, again.is_duplicate) == (first.message_id, True)
        with pytest.raises(StoreUnavailable, match="no room for 1 more"):
            await line.send_all(("1", "a"), ("2", "a"))
        assert await line.drain() == ["1"]


async def test_a_missing_queue_is_reported(root: Path) -> None:
    async with fifo_on(root) as line:
        line.queue = DEAD_LINE
        with pytest.raises(QueueNotFound):
            await line.send("1")


async def test_a_queue_that_was_deleted_and_made_again_knows_nothing(root: Path) -> None:
    async with fifo_on(root) as line:
        first = await line.send("1")
        await line.store.delete_queue(LINE)
        await line.store.create_queue(LINE)

        again = await line.send("1")
        assert again.message_id != first.message_id
        assert not again.is_duplicate
        assert await line.drain() == ["1"]


async def test_a_purge_removes_messages_and_not_what_is_known_of_them(root: Path) -> None:
    async with fifo_on(root) as line:
        first = await line.send("1")
        [taken] = await line.receive()
        await line.send("2")
        await line.store.purge(LINE)

        assert (await line.send("1")).message_id == first.message_id
        with pytest.raises(MessageNotFound):
            await line.remove(taken)
        await line.send("3")
        assert await line.drain() == ["3"]


async def test_a_queue_is_read_again_once_what_is_being_sent_is_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages go from `new` to `delay` meanwhile, and both folders may have been read by then."""
    async with fifo_on(root, notes={"delay": "900"}) as line:
        await line.service.require(LINE)
        queues, beside = line.service._queues, list[bool]()

        def read(*arguments: Any) -> list[HiddenMessage]:
            beside.append(queues.is_sent_to(LINE))
            return read_coming(*arguments)

        monkeypatch.setattr("mq_sqs.fifo.using.read_coming", read)

        def read_again(work: Workspace) -> Operation[None]:
            queues.drop(LINE)
            yield from use(work, queues, LINE)

        def both(work: Workspace) -> Operation[list[Any]]:
            drafts = [in_order(body, "a", body) for body in "12"]
            sending = send_in_order(work, queues, LINE, drafts)
            ended: list[Any] = yield Together([sending, read_again(work)])
            return ended

        [sent, _] = await line.store.run(both)

        assert beside == [False]
        again = await line.send_all(("1", "a"), ("2", "a"))
        assert [each.message_id for each in again] == [each.message_id for each in sent]


# What a message says, and is told


def test_sequence_numbers_have_twenty_digits_and_grow() -> None:
    ids = ServerIds(lambda: 1_795_355_231_000_000_000)
    numbers = [sequence_number(ids.next()) for _ in range(100)]

    assert numbers == sorted(set(numbers))
    assert all(re.fullmatch("[1-9][0-9]{19}", each) for each in numbers)
    assert re.fullmatch("[0-9]{20}", sequence_number("by-hand"))
    assert int(numbers[0]) < 2**64


@pytest.mark.parametrize("text", ["", "a" * 129, "a b", "\u00e4", "a\n"])
def test_tokens_that_amazon_would_not_take_are_refused(text: str) -> None:
    for name, read in (
        ("MessageGroupId", read_group),
        ("ReceiveRequestAttemptId", read_attempt_id),
    ):
        with pytest.raises(SQSError, match=name) as refused:
            read({name: text})
        assert refused.value.fault.code == "InvalidParameterValue"


def test_a_message_to_a_fifo_queue_needs_a_group() -> None:
    assert read_group({}) is None
    assert read_group({"MessageGroupId": "a!~"}) == "a!~"
    with pytest.raises(SQSError, match="MessageGroupId") as refused:
        check_given({"MessageDeduplicationId": "a"}, QueueSettings())
    assert refused.value.fault.code == "MissingParameter"
