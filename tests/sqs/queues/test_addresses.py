"""Names, URLs and ARNs of queues."""

from __future__ import annotations

import pytest

from mq.names import QueueName
from mq_sqs.faults import SQSError
from mq_sqs.queues.addresses import (
    Addressing,
    queue_of_arn,
    queue_of_name,
    queue_of_url,
    queue_to_make,
)

ORDERS = QueueName("orders")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:9324/000000000000/orders",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/orders",
        "https://eu-west-1.queue.amazonaws.com/123456789012/orders/",
        "http://localhost:4566/queue/us-east-1/000000000000/orders?x=y",
        "/000000000000/orders",
        "orders",
        "http://localhost/1/%6frders",
    ],
)
def test_the_last_segment_of_a_url_counts(url: str) -> None:
    assert queue_of_url(url) == ORDERS


def test_a_url_and_an_arn_say_what_the_gateway_was_started_with() -> None:
    addressing = Addressing("eu-west-1", "123456789012", "https://sqs.example.org")

    assert addressing.url_of(ORDERS, "http://x") == "https://sqs.example.org/123456789012/orders"
    assert Addressing().url_of(ORDERS, "http://x:1") == "http://x:1/000000000000/orders"
    assert addressing.arn_of(ORDERS) == "arn:aws:sqs:eu-west-1:123456789012:orders"
    assert queue_of_arn(addressing.arn_of(ORDERS)) == ORDERS


@pytest.mark.parametrize("arn", ["", "orders", "arn:aws:sns:us-east-1:0:orders", "arn:aws:sqs:::",
                                 "arn:aws:sqs:us-east-1:0:or/ders"])  # fmt: skip
def test_what_is_not_the_arn_of_a_queue_names_none(arn: str) -> None:
    assert queue_of_arn(arn) is None


@pytest.mark.parametrize("url", ["", "/", "http://", "http://localhost//", "http://localhost"])
def test_a_url_without_a_name_is_that_of_no_queue_there_is(url: str) -> None:
    with pytest.raises(SQSError) as refused:
        queue_of_url(url)

    assert refused.value.fault.name == "QueueDoesNotExist"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "a/b", "a:b", "x" * 81, "-a", "_a"])
def test_a_queue_of_a_bad_name_is_not_made(name: str) -> None:
    with pytest.raises(SQSError) as refused:
        queue_to_make(name)

    assert refused.value.fault.code == "InvalidParameterValue"


@pytest.mark.parametrize("name", ["a.fifo", "a_-9.fifo", "x" * 75 + ".fifo"])
def test_a_fifo_queue_has_a_name_like_others_before_its_end(name: str) -> None:
    assert queue_to_make(name) == queue_of_name(name) == queue_of_url(f"http://h/0/{name}") == name


@pytest.mark.parametrize("name", [".fifo", "a.b.fifo", "-a.fifo", "x" * 76 + ".fifo", "a.FIFO"])
def test_a_fifo_queue_of_a_bad_name_is_not_made(name: str) -> None:
    with pytest.raises(SQSError) as refused:
        queue_to_make(name)

    assert refused.value.fault.code == "InvalidParameterValue"


def test_a_queue_of_mq_is_found_by_a_name_that_sqs_would_not_make() -> None:
    assert queue_of_name("orders.dead") == "orders.dead"
    with pytest.raises(SQSError) as refused:
        queue_of_name("no such name")

    assert refused.value.fault.name == "QueueDoesNotExist"
