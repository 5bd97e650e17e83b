"""Answers that get lost, servers that are killed: nothing is lost, nothing comes twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mq.client import Client, LeaseLost, Message, NoAnswer, Queue
from tests.support.faces import counts, new_queue, receive_now
from tests.support.processes import Server, wait_until
from tests.support.proxy import LossyProxy

LOSSES = 3

pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture(params=[0, 40], ids=lambda kept: f"{kept} bytes of it came")
def proxy(request: pytest.FixtureRequest, server: Server) -> Iterator[LossyProxy]:
    proxy = LossyProxy(server.port, request.param)
    yield proxy
    proxy.close()


@pytest.fixture
def lossy(proxy: LossyProxy, connect_client: Callable[..., Client]) -> Queue:
    """A new queue, behind the proxy."""
    return new_queue(connect_client(proxy.url))


def test_a_publish_whose_answers_are_lost_is_one_message(lossy: Queue, proxy: LossyProxy) -> None:
    proxy.losses = LOSSES
    message_id = lossy.publish("one")
    proxy.losses = LOSSES
    ids = lossy.publish_many(["two", "three"])

    assert proxy.lost == 2 * LOSSES
    found = lossy.receive_many(10)
    assert [message.id for message in found] == [message_id, *ids]
    assert [message.text() for message in found] == ["one", "two", "three"]


def test_an_acknowledgement_whose_answers_are_lost_is_done(lossy: Queue, proxy: LossyProxy) -> None:
    lossy.publish("one")
    message = receive_now(lossy)

    proxy.losses = LOSSES
    message.ack()

    assert counts(lossy) == (0, 0, 0)


def test_of_many_each_is_done_once_though_answers_are_lost(
    lossy: Queue, proxy: LossyProxy, connect_client: Callable[..., Client]
) -> None:
    """A message that another receiver has is told nevertheless."""
    lossy.publish_many(["held", "a", "b", "c", "d"])
    held, a, b, c, d = lossy.receive_many(5)
    other = new_queue(connect_client(proxy.url))

    proxy.losses = LOSSES
    failed = lossy.ack_many({a.id: a.lease, b.id: b.lease, held.id: c.lease})
    proxy.losses = LOSSES
    assert other.move_many(lossy.name, [c.id, d.id]) == {}

    assert {message_id: type(error) for message_id, error in failed.items()} == {held.id: LeaseLost}
    assert (counts(lossy), counts(other)) == ((0, 1, 0), (2, 0, 0))


def test_an_extension_whose_answers_are_lost_is_done(lossy: Queue, proxy: LossyProxy) -> None:
    lossy.publish("one")
    message = receive_now(lossy, visibility=1)

    proxy.losses = LOSSES
    message.extend(600)

    assert (message.visible_at - message.published_at).total_seconds() > 500
    message.ack()


def test_a_release_whose_answers_are_lost_is_done(lossy: Queue, proxy: LossyProxy) -> None:
    lossy.publish("one")
    message = receive_now(lossy)

    proxy.losses = LOSSES
    message.release()

    assert counts(lossy) == (1, 0, 0)


def test_making_and_deleting_a_queue_is_done_once(lossy: Queue, proxy: LossyProxy) -> None:
    proxy.losses = LOSSES
    lossy.delete()
    proxy.losses = LOSSES
    lossy.create()

    assert counts(lossy) == (0, 0, 0)


def test_a_receive_whose_answer_is_lost_is_tried_again(
    hasty_server: Server, connect_client: Callable[..., Client]
) -> None:
    """The message of the first answer comes back when its lease is over."""
    proxy = LossyProxy(hasty_server.port, 40)
    orders = new_queue(connect_client(proxy.url))
    message_id = orders.publish("one")

    proxy.losses = 1
    message = orders.receive(wait=10)

    proxy.close()
    assert message is not None
    assert (message.id, message.receive_count) == (message_id, 2)


@pytest.fixture
def restart(start_server: Callable[..., Server], disk: Path) -> Callable[[Server | None], Server]:
    """`restart(server)` kills it, if there is one, and starts another with its root and port."""

    def start(server: Server | None) -> Server:
        if server is None:
            return start_server(root=disk)
        server.kill()
        return start_server(f"--port={server.port}", root=disk)

    return start


def test_a_server_killed_among_publishes_loses_nothing_and_doubles_nothing(
    restart: Callable[[Server | None], Server], connect_client: Callable[..., Client]
) -> None:
    server = restart(None)
    mq = connect_client(server.url)
    orders = new_queue(mq)
    published: list[tuple[str, str]] = []
    stop = threading.Event()

    def publish(producer: int) -> None:
        number = 0
        while not stop.is_set():
            bodies = [f"{producer}-{number}-{part}" for part in range(1 + 4 * (producer % 2))]
            ids = orders.publish_many(bodies) if producer % 2 else [orders.publish(bodies[0])]
            published.extend(zip(ids, bodies, strict=True))
            number += 1

    producers = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for producer in producers:
        producer.start()
    for _ in range(2):
        wait_until(partial(has_more_than, published, len(published) + 40))
        server = restart(server)
    stop.set()
    for producer in producers:
        producer.join()

    found = [(each.id, each.text()) for each in iter_all(orders)]
    assert sorted(found) == sorted(published)
    assert len(set(found)) == len(found)


def has_more_than(published: list[tuple[str, str]], count: int) -> bool:
    return len(published) > count


def iter_all(queue: Queue) -> Iterator[Message]:
    while found := queue.receive_many(1000, visibility=600):
        yield from found


def test_a_server_killed_among_acknowledgements_brings_nothing_back(
    restart: Callable[[Server | None], Server], connect_client: Callable[..., Client]
) -> None:
    """The leases outlive it as well."""
    server = restart(None)
    orders = new_queue(connect_client(server.url))
    ids = orders.publish_many([f"{number}" for number in range(100)])
    acknowledged: list[str] = []

    def consume() -> None:
        for message in orders.receive_many(50, visibility=600):
            message.ack()
            acknowledged.append(message.id)

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    wait_until(lambda: len(acknowledged) > 20)
    restart(server)
    for consumer in consumers:
        consumer.join()

    assert sorted(acknowledged) == sorted(ids)
    assert counts(orders) == (0, 0, 0)


def test_without_a_server_the_error_names_it_and_says_what_is_wrong(
    start_server: Callable[..., Server], connect_client: Callable[..., Client]
) -> None:
    server = start_server()
    server.kill()

    with pytest.raises(
        NoAnswer, match=f"127.0.0.1:{server.port}.*does not answer: .*[Cc]onnect"
    ) as caught:
        connect_client(server.url, retry_seconds=0).queue("orders").publish("one")
    assert caught.value.problem is None
