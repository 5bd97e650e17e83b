"""Leases that are renewed, and what a block around a message does at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from mq.client import AsyncClient, Client, LeaseLost, Message, Queue, QueueNotFound
from tests.support.faces import counts, new_queue, receive_now, wait_for_renewals
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.proxy import LossyProxy
from tests.support.wire import Wire, make_queue

VISIBILITY_SECONDS = 1.0


class Broken(Exception):
    pass


def test_a_block_acknowledges_at_its_end(orders: Queue) -> None:
    orders.publish("one")

    with receive_now(orders) as message:
        assert counts(orders) == (0, 1, 0)

    assert message.is_settled
    assert counts(orders) == (0, 0, 0)


def test_a_block_that_raises_releases(orders: Queue) -> None:
    orders.publish("one")

    with pytest.raises(Broken), receive_now(orders) as message:
        raise Broken

    assert message.is_settled
    assert counts(orders) == (1, 0, 0)


@pytest.mark.parametrize(
    ("settle", "after"),
    [
        (lambda message: message.release(), (1, 0, 0)),
        (lambda message: message.release(delay=60), (0, 1, 0)),
        (lambda message: message.ack(), (0, 0, 0)),
    ],
)
def test_a_block_leaves_alone_what_it_has_settled(
    orders: Queue, settle: Callable[[Message], None], after: tuple[int, int, int]
) -> None:
    orders.publish("one")

    with receive_now(orders) as message:
        settle(message)

    assert counts(orders) == after


def test_a_lease_is_renewed_while_the_block_runs(hasty_orders: Queue) -> None:
    """Four renewals, at a third of it, take longer than the visibility."""
    hasty_orders.publish("one")

    with receive_now(hasty_orders, VISIBILITY_SECONDS) as message:
        wait_for_renewals(message, 4)
        assert hasty_orders.receive() is None
        assert message.receive_count == 1

    assert counts(hasty_orders) == (0, 0, 0)


def test_a_lease_of_the_length_that_the_server_chose_is_renewed_too(hasty_orders: Queue) -> None:
    hasty_orders.create(settings={"visibility": VISIBILITY_SECONDS})
    hasty_orders.publish("one")

    with receive_now(hasty_orders) as message:
        wait_for_renewals(message, 4)
        assert hasty_orders.receive() is None

    assert counts(hasty_orders) == (0, 0, 0)


@pytest.mark.parametrize(
    ("settle", "error"),
    [
        (lambda message: message.move("nowhere"), QueueNotFound),
        (lambda message: message.release(-1), ValueError),
    ],
)
def test_a_lease_is_renewed_on_after_what_failed_to_settle_the_message(
    hasty_orders: Queue, settle: Callable[[Message], None], error: type[Exception]
) -> None:
    hasty_orders.publish("one")

    with receive_now(hasty_orders, VISIBILITY_SECONDS) as message:
        with pytest.raises(error):
            settle(message)
        wait_for_renewals(message, 4)
        assert hasty_orders.receive() is None

    assert counts(hasty_orders) == (0, 0, 0)


def test_what_could_not_be_given_back_is_not_renewed(
    hasty_server: Server, connect_client: Callable[..., Client]
) -> None:
    proxy = LossyProxy(hasty_server.port, 0)
    orders = new_queue(connect_client(hasty_server.url))
    orders.publish("one")
    unlucky = connect_client(proxy.url, retry_seconds=0).queue(orders.name)

    with receive_now(unlucky, VISIBILITY_SECONDS) as message:
        proxy.losses = 1
        message.give_back(delay=0.2)
        again = orders.receive(wait=10)

    proxy.close()
    assert again is not None
    assert message.is_settled


def test_renewing_alone_settles_nothing(hasty_orders: Queue) -> None:
    hasty_orders.publish("one")
    message = receive_now(hasty_orders, VISIBILITY_SECONDS)

    with message.renewing():
        wait_for_renewals(message, 4)

    assert counts(hasty_orders) == (0, 1, 0)
    assert not message.is_settled
    again = hasty_orders.receive(wait=10)
    assert again is not None
    assert again.receive_count == 2


def test_a_block_with_a_lost_lease_says_so_at_its_end(orders: Queue, server: Server) -> None:
    orders.publish("one")
    wire = Wire(server.port)

    def work() -> None:
        with receive_now(orders, VISIBILITY_SECONDS) as message:
            wire.request("GET", f"/{orders.name}/messages?id={message.id}")
            wait_until(lambda: message.is_lost)

    with pytest.raises(LeaseLost) as caught:
        work()
    wire.close()
    assert caught.value.problem is not None
    assert caught.value.problem.status == 412
    assert counts(orders) == (0, 1, 0)


def test_a_block_that_raises_after_its_lease_was_lost_raises_what_it_raised(
    orders: Queue, server: Server
) -> None:
    orders.publish("one")
    wire = Wire(server.port)

    def work() -> None:
        with receive_now(orders, VISIBILITY_SECONDS) as message:
            wire.request("GET", f"/{orders.name}/messages?id={message.id}")
            wait_until(lambda: message.is_lost)
            raise Broken

    with pytest.raises(Broken):
        work()
    wire.close()
    assert counts(orders) == (0, 1, 0)


def test_a_lease_that_cannot_be_renewed_in_time_counts_as_lost(
    start_server: Callable[..., Server], connect_client: Callable[..., Client]
) -> None:
    server = start_server()
    orders = new_queue(connect_client(server.url))
    orders.publish("one")
    message = receive_now(orders, VISIBILITY_SECONDS)

    server.kill()

    def work() -> None:
        with message.renewing():
            wait_until(lambda: message.is_lost)

    with pytest.raises(LeaseLost) as caught:
        work()
    assert caught.value.problem is None
    assert caught.value is message.lost


def test_a_lease_outlives_a_restart_of_the_server(
    start_server: Callable[..., Server],
    connect_client: Callable[..., Client],
    processes: list[Process],
) -> None:
    server = start_server()
    processes.append(start_mover(server.root))
    orders = new_queue(connect_client(server.url))
    orders.publish("one")

    with receive_now(orders, visibility=6) as message:
        server.kill()
        start_server(f"--port={server.port}", root=server.root)
        wait_for_renewals(message, 1)
        assert not message.is_lost

    assert counts(orders) == (0, 0, 0)


def test_a_renewal_that_the_server_does_not_answer_costs_no_lease(
    server: Server, connect_client: Callable[..., Client]
) -> None:
    """Another program may answer it in place of the server, and nothing is sent again."""
    proxies = [LossyProxy(server.port, 0) for _ in range(2)]
    proxies[1].instead = b"220 mail.example.org\r\n"
    with ExitStack() as blocks:
        messages = []
        for proxy in proxies:
            orders = new_queue(connect_client(proxy.url, retry_seconds=0))
            orders.publish("one")
            messages.append(blocks.enter_context(receive_now(orders, visibility=6)))
            proxy.losses = 1
        wait_until(lambda: [proxy.lost for proxy in proxies] == [1, 1])
        for message in messages:
            wait_for_renewals(message, 1)
        assert not any(message.is_lost for message in messages)

    for proxy in proxies:
        proxy.close()
    assert all(message.is_settled for message in messages)


async def test_a_block_of_the_asynchronous_client_is_cancelled_when_its_lease_is_lost(
    server: Server, wire: Wire
) -> None:
    queue = make_queue(wire)
    async with AsyncClient(server.url) as mq:
        await mq.queue(queue).publish("one")
        message = await mq.queue(queue).receive(visibility=VISIBILITY_SECONDS)
        assert message is not None
        wire.request("GET", f"/{queue}/messages?id={message.id}")

        with pytest.raises(LeaseLost) as caught:
            async with message:
                await asyncio.Event().wait()

        assert caught.value.problem is not None
        assert caught.value.problem.status == 412
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_block_that_is_cancelled_from_outside_releases_and_stays_cancelled(
    server: Server, wire: Wire
) -> None:
    queue = make_queue(wire)
    began = asyncio.Event()

    async def work() -> None:
        async with AsyncClient(server.url) as mq:
            await mq.queue(queue).publish("one")
            message = await mq.queue(queue).receive()
            assert message is not None
            async with message:
                began.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert wire.count(queue) == (1, 0)
