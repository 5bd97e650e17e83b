"""Workers that end by themselves: when their queue is empty, or after a number of messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from mq.client import Client, Message, NewMessage, NoAnswer, Queue, QueueNotFound, Unavailable
from tests.support.breaking import Breaking
from tests.support.faces import Running, counts, new_queue
from tests.support.processes import Server, wait_until

Work = Callable[..., Running]

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"


def ended(running: Running) -> BaseException | None:
    """Wait until a worker ends by itself. Return its error."""
    running.wait()
    return running.error


@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_is_ready_is_worked_off_and_the_worker_ends(
    orders: Queue, work: Work, concurrency: int
) -> None:
    seen: list[str] = []
    orders.publish_many([f"{number}" for number in range(20)])

    running = work(
        orders, lambda message: seen.append(message.text()),
        until_empty=True, concurrency=concurrency,
    )  # fmt: skip

    assert ended(running) is None
    assert sorted(seen, key=int) == [f"{number}" for number in range(20)]
    assert counts(orders) == (0, 0, 0)


def test_neither_leased_nor_delayed_messages_are_waited_for(orders: Queue, work: Work) -> None:
    seen: list[str] = []
    orders.publish("leased")
    assert orders.receive(visibility=600) is not None
    orders.publish_many([NewMessage("later", delay=600), "ready"])

    running = work(
        orders, lambda message: seen.append(message.text()), until_empty=True, concurrency=2
    )

    assert ended(running) is None
    assert seen == ["ready"]
    assert counts(orders) == (0, 1, 1)


def test_a_message_whose_handler_fails_is_not_waited_for(orders: Queue, work: Work) -> None:
    orders.publish("one")

    def handle(message: Message) -> None:
        raise ArithmeticError("the till is open")

    assert ended(work(orders, handle, until_empty=True)) is None
    assert counts(orders) == (0, 1, 0)


def test_a_paused_queue_counts_as_empty(orders: Queue, work: Work) -> None:
    orders.publish("one")
    orders.create({"paused": True})

    assert ended(work(orders, print, until_empty=True, concurrency=2)) is None
    assert counts(orders) == (1, 0, 0)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_handlers_publish_is_worked_off_too(
    orders: Queue, work: Work, concurrency: int
) -> None:
    seen: list[int] = []
    orders.publish("0")

    def handle(message: Message) -> None:
        number = int(message.text())
        if number < 30:
            publisher.publish(f"{number + 1}")
        seen.append(number)

    with Client(url_of(orders)) as other:
        publisher = other.queue(orders.name)
        running = work(orders, handle, until_empty=True, concurrency=concurrency)
        error = ended(running)

    assert error is None
    assert seen == list(range(31))
    assert counts(orders) == (0, 0, 0)


def test_those_that_found_nothing_help_with_what_comes_while_others_are_at_work(
    orders: Queue, work: Work
) -> None:
    """The first message ends when the others have been handled, by those that found nothing."""
    seen: list[str] = []
    orders.publish("first")

    def handle(message: Message) -> None:
        if message.text() == "first":
            publisher.publish_many(["second", "third"])
            wait_until(lambda: len(seen) == 2, 100)
        seen.append(message.text())

    with Client(url_of(orders)) as other:
        publisher = other.queue(orders.name)
        error = ended(work(orders, handle, until_empty=True, concurrency=2))

    assert error is None
    assert seen == ["second", "third", "first"]


@pytest.mark.parametrize(("concurrency", "ready"), [(1, 1), (3, 0)])
def test_a_worker_that_is_stopped_finishes_what_it_has_begun(
    orders: Queue, work: Work, concurrency: int, ready: int
) -> None:
    """Whether it leaves messages, or some of it look for more."""
    began, go_on = threading.Event(), threading.Event()
    orders.publish_many(["one", "two"][: ready + 1])

    def handle(message: Message) -> None:
        began.set()
        go_on.wait(30)

    running = work(orders, handle, until_empty=True, concurrency=concurrency)
    assert began.wait(30)
    running.tell_to_stop()
    go_on.set()
    running.wait()

    assert running.error is None
    assert counts(orders) == (ready, 0, 0)


def test_a_queue_that_is_not_there_is_an_error(mq: Client, work: Work) -> None:
    running = work(mq.queue("absent"), print, until_empty=True, concurrency=2)

    assert isinstance(ended(running), QueueNotFound)


@pytest.mark.parametrize(("answer", "error"), [(b"", NoAnswer), (BUSY, Unavailable)])
def test_a_queue_that_cannot_be_asked_is_not_taken_for_empty(
    connect_client: Callable[..., Client], work: Work, answer: bytes, error: type[Exception]
) -> None:
    with closing(Breaking([answer])) as server:
        mq = connect_client(server.url, retry_seconds=0)

        running = work(mq.queue("orders"), print, until_empty=True, concurrency=2)

        assert isinstance(ended(running), error)


def test_a_server_that_restarts_is_waited_for(
    start_server: Callable[..., Server], connect_client: Callable[..., Client], work: Work
) -> None:
    server = start_server()
    orders = new_queue(connect_client(server.url))
    seen: list[str] = []
    orders.publish("one")
    server.kill()

    running = work(
        orders, lambda message: seen.append(message.text()), until_empty=True, concurrency=2
    )
    start_server(f"--port={server.port}", root=server.root)

    assert ended(running) is None
    assert seen == ["one"]
    assert counts(orders) == (0, 0, 0)


# A limit of messages


@pytest.mark.parametrize("until_empty", [False, True])
@pytest.mark.parametrize(("concurrency", "most"), [(1, 3), (3, 5), (4, 1)])
def test_a_worker_ends_after_max_messages(
    orders: Queue, work: Work, until_empty: bool, concurrency: int, most: int
) -> None:
    seen: list[str] = []
    orders.publish_many([f"{number}" for number in range(8)])

    running = work(
        orders, lambda message: seen.append(message.text()),
        until_empty=until_empty, concurrency=concurrency, max=most,
    )  # fmt: skip

    assert ended(running) is None
    assert len(seen) == most
    # None was received beyond these.
    assert counts(orders) == (8 - most, 0, 0)


def test_messages_that_fail_count_too(orders: Queue, work: Work) -> None:
    orders.publish_many(["one", "two", "three"])

    def handle(message: Message) -> None:
        raise ArithmeticError("the till is open")

    assert ended(work(orders, handle, max=2)) is None
    assert counts(orders) == (1, 2, 0)


def test_a_worker_waits_for_the_last_message_of_its_limit(orders: Queue, work: Work) -> None:
    """Some of its threads have ended by then, because no message was left for them to look for."""
    seen: list[str] = []
    running = work(orders, lambda message: seen.append(message.text()), max=3, concurrency=3)
    orders.publish_many(["one", "two"])
    wait_until(lambda: counts(orders) == (0, 0, 0) and len(seen) == 2)

    orders.publish_many(["three", "four"])

    assert ended(running) is None
    assert len(seen) == 3
    wait_until(lambda: counts(orders) == (1, 0, 0))


def test_an_empty_queue_ends_a_worker_that_may_have_more(orders: Queue, work: Work) -> None:
    orders.publish_many(["one", "two"])

    assert ended(work(orders, print, until_empty=True, max=3, concurrency=2)) is None
    assert counts(orders) == (0, 0, 0)


@pytest.mark.parametrize("most", [0, -1])
def test_a_worker_has_at_least_one_message(orders: Queue, most: int) -> None:
    with pytest.raises(ValueError, match=f"max={most}: give 1 or more"):
        orders.worker(print, max=most)


def url_of(queue: Queue) -> str:
    """Return the URL of a queue's server, whichever client it belongs to."""
    return str(getattr(queue, "_one", queue)._session.address.url)
