"""Arguments of the wrong type: the error names the argument, and the way out where there is one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mq.client import BadRequest, Client, NewMessage, Queue

WITH_A_NAME = SimpleNamespace(name="other")
WITH_A_SET = NewMessage("", properties={1})  # type: ignore[arg-type]
WITH_A_TEXT = NewMessage("", delay="6")  # type: ignore[arg-type]
DAY = timedelta(days=1)

WRONG: dict[str, Callable[[Any], object]] = {
    "message_id: a message's id is str, not NoneType": lambda q: q.remove(None),
    "message_id: a message's id is str, not bytes; decode": lambda q: q.remove(b"id"),
    "message_id: a message's id is str, not int": lambda q: q.publish("one", message_id=5),
    "after: a message's id is str": lambda q: q.peek(1, 5),
    "source: a queue's name is str, not SimpleNamespace; give its .name": lambda q: q.move(
        WITH_A_NAME
    ),
    "source: a queue's name is str, not NoneType": lambda q: q.move_many(None, []),
    "reason is str, not int": lambda q: q.move("other", reason=5),
    "ids: give a list of ids, not str": lambda q: q.move_many("other", "id"),
    "ids: give a list of ids, not NoneType": lambda q: q.move_many("other", None),
    "ids: a message's id is str, not int": lambda q: q.move_many("other", [5]),
    "leases: give the lease of each id, as in .*, not list": lambda q: q.ack_many(["id"]),
    "leases: give the lease of each id, as in .*, not NoneType": lambda q: q.ack_many({"id": None}),
    "leases: give the lease of each id, as in .*, not int": lambda q: q.ack_many({5: "lease"}),
    "wait=None: give seconds as a number": lambda q: q.receive(wait=None),
    "wait='5': give seconds": lambda q: q.receive_many(5, wait="5"),
    "visibility=.*give seconds as a number; total_seconds": lambda q: q.receive(visibility=DAY),
    "delay=.*give seconds as a number": lambda q: q.publish("one", delay=DAY),
    "delay='5': give seconds as a number": lambda q: q.publish("one", delay="5"),
    "delay='6': give seconds as a number": lambda q: q.publish_many([WITH_A_TEXT]),
    "visibility='5': give seconds as a number": lambda q: q.receive(visibility="5"),
    "max='5': give a whole number": lambda q: q.receive_many("5"),
    "concurrency='5': give a whole number": lambda q: q.worker(print, concurrency="5"),
    "max=1.5: give a whole number": lambda q: q.worker(print, max=1.5),
    "content_type is str, not bytes": lambda q: q.publish("one", content_type=b"text/plain"),
    "properties: give names and values, as in": lambda q: q.publish("one", properties=["a"]),
    "properties: a name is str, not int": lambda q: q.publish("one", properties={5: "a"}),
    "properties: give names .*, not set": lambda q: q.publish_many([WITH_A_SET]),
    "publish_many takes a list of messages, not int": lambda q: q.publish_many(5),
    "publish_many takes a list of messages, not dict": lambda q: q.publish_many({"a": 1}),
    "settings: give names and values, as in": lambda q: q.create("visibility"),
    "also: a queue's name is str, not int": lambda q: q.create({"also": [5]}),
}


@pytest.mark.parametrize("told", WRONG)
def test_an_argument_of_the_wrong_type_is_reported_by_its_name(orders: Queue, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        WRONG[told](orders)

    assert orders.counts().ready == 0


@pytest.mark.parametrize("name", [None, 5, b"orders", ["orders"]])
def test_a_name_of_a_queue_is_text(mq: Client, name: Any) -> None:
    with pytest.raises(TypeError, match="name: a queue's name is str, not"):
        mq.queue(name)


def test_a_delay_of_a_release_is_a_number(orders: Queue) -> None:
    orders.publish("one")
    message = orders.receive()
    assert message is not None

    with pytest.raises(TypeError, match="delay='5': give seconds as a number"):
        message.release("5")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delay=-1: give 0 or more seconds"):
        message.release(-1)
    with pytest.raises(TypeError, match="visibility='5': give seconds as a number"):
        message.extend("5")  # type: ignore[arg-type]
    message.ack()


def test_a_delay_or_a_wait_that_is_not_a_number_is_named(orders: Queue) -> None:
    orders.publish("one")
    message = orders.receive()
    assert message is not None

    with pytest.raises(ValueError, match="delay=nan: give seconds as a number"):
        message.release(nan)
    with pytest.raises(ValueError, match="wait=nan: give seconds as a number"):
        orders.receive(wait=nan)
    message.ack()


@pytest.mark.parametrize("wait", [inf, 1e300, 10**400], ids=["inf", "1e300", "10**400"])
def test_a_wait_of_any_size_is_refused_by_its_name(orders: Queue, wait: float) -> None:
    with pytest.raises(BadRequest, match="parameter wait="):
        orders.receive(wait=wait)
    with pytest.raises(BadRequest, match="parameter wait="):
        orders.receive_many(2, wait=wait)


@pytest.mark.parametrize("content_type", ["text/plain\n", "größe"])
def test_a_content_type_that_http_cannot_carry_is_refused(orders: Queue, content_type: str) -> None:
    with pytest.raises(BadRequest, match=r"content_type .* printable ASCII"):
        orders.publish("one", content_type=content_type)


@pytest.mark.parametrize(
    ("given", "told"),
    [({"url": 5}, "url is str"), ({"url": b"http://h"}, "url is str, not bytes; decode"),
     ({"token": 5}, "token is str"), ({"token_file": 5}, "token_file is a path, not int"),
     ({"socket": 5}, "socket is a path"), ({"ca_file": 5}, "ca_file is a path"),
     ({"timeout_seconds": None}, "timeout_seconds=None: give seconds as a number"),
     ({"retry_seconds": "5"}, "retry_seconds='5': give seconds as a number")],
)  # fmt: skip
def test_what_a_client_is_made_with_is_reported_by_its_name(
    connect_client: Callable[..., Client], given: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        connect_client(**given)


@pytest.mark.parametrize("content", [None, "not in PEM"])
def test_a_file_that_is_missing_or_has_no_certificates_is_named(
    connect_client: Callable[..., Client], tmp_path: Path, content: str | None
) -> None:
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_text(content)

    with pytest.raises(OSError, match=str(ca_file)):
        connect_client("https://127.0.0.1:1", ca_file=ca_file)
