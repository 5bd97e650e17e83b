"""Messages that are handed over: what was made of them is published as they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mq.client import (
    AsyncMessage,
    Client,
    IdTaken,
    LeaseLost,
    Message,
    NewMessage,
    Queue,
    QueueNotFound,
)
from mq.config import MAX_BATCH_LINES
from tests.support.faces import counts, new_queue, receive_now
from tests.support.processes import Server
from tests.support.proxy import LossyProxy

LOSSES = 3


@pytest.fixture
def bills(mq: Client) -> Queue:
    return new_queue(mq)


def test_one_or_several_are_published_and_the_message_is_settled(
    mq: Client, orders: Queue, bills: Queue
) -> None:
    mails = new_queue(mq)
    orders.publish_many(["one", "two"])

    with receive_now(orders) as first:
        ids = first.hand_over(bills.name, "bill 1")
    with receive_now(orders) as second:
        ids += second.hand_over(
            bills.name, "bill 2", NewMessage("thanks", queue=mails.name), also=[mails.name]
        )

    assert first.is_settled
    assert second.is_settled
    assert counts(orders) == (0, 0, 0)
    assert [each.text() for each in bills.receive_many(9)] == ["bill 1", "bill 2"]
    assert [each.text() for each in mails.receive_many(9)] == ["bill 2", "thanks"]
    assert len(set(ids)) == 3


def test_a_lost_lease_publishes_nothing(orders: Queue, bills: Queue) -> None:
    orders.publish("one")
    late = receive_now(orders)
    late.release()
    gone = receive_now(orders)
    gone.ack()

    for message in (late, gone):
        with pytest.raises(LeaseLost):
            message.hand_over(bills.name, "bill")
        assert message.is_lost

    assert counts(bills) == (0, 0, 0)


def test_what_cannot_be_published_leaves_the_message(orders: Queue, bills: Queue) -> None:
    orders.publish("one")
    bills.publish("another", message_id="bill")

    with receive_now(orders) as message:
        with pytest.raises(QueueNotFound):
            message.hand_over("missing", "bill")
        with pytest.raises(IdTaken):
            message.hand_over(bills.name, NewMessage("bill", message_id="bill"))
        for wrong in ([], ["bill"] * (MAX_BATCH_LINES + 1)):
            with pytest.raises(ValueError, match="one batch"):
                message.hand_over(bills.name, *wrong)
        assert not message.is_settled

    assert (counts(orders), counts(bills)) == ((0, 0, 0), (1, 0, 0))


def test_a_handler_that_has_handed_over_acknowledges_nothing_more(
    orders: Queue, bills: Queue
) -> None:
    orders.publish_many(["1", "2", "3"])

    async def hand_over(message: AsyncMessage) -> None:
        await message.hand_over(bills.name, f"bill {message.text()}")

    def handle(message: Message) -> None:
        message.hand_over(bills.name, f"bill {message.text()}")

    orders.worker(handle if isinstance(orders, Queue) else hand_over).run_until_empty()

    assert counts(orders) == (0, 0, 0)
    assert [each.text() for each in bills.receive_many(9)] == ["bill 1", "bill 2", "bill 3"]


@pytest.fixture(params=[0, 40], ids=lambda kept: f"{kept} bytes of it came")
def proxy(request: pytest.FixtureRequest, server: Server) -> Iterator[LossyProxy]:
    proxy = LossyProxy(server.port, request.param)
    yield proxy
    proxy.close()


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("number", [1, 3])
def test_though_answers_are_lost_it_is_done_once(
    number: int, proxy: LossyProxy, connect_client: Callable[..., Client]
) -> None:
    mq = connect_client(proxy.url)
    orders, bills = new_queue(mq), new_queue(mq)
    orders.publish("one")
    message = receive_now(orders)

    proxy.losses = LOSSES
    ids = message.hand_over(bills.name, *["bill"] * number)

    assert proxy.lost == LOSSES
    assert [each.id for each in bills.receive_many(9)] == ids
    assert (counts(orders), counts(bills)) == ((0, 0, 0), (0, number, 0))
