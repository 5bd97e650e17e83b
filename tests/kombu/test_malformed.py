"""Tasks that Celery cannot read. tests/kombu/test_worker.py shows what a worker makes of them."""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from kombu import Connection

from mq.client import Client
from mq.kombu.malformed import is_malformed_task
from tests.support.consuming import Connect, ready
from tests.support.processes import wait_until

HEADERS = {"task": "tasks.brew", "id": "a-1", "eta": None, "expires": None, "timelimit": [None, 5]}
BODY: list[object] = [[1], {}, {"chain": None}]
OF_PROTOCOL_1 = {"task": "tasks.brew", "id": "a-1", "args": [], "kwargs": {}}


def payload(headers: Mapping[str, object] | None, body: object, **members: Any) -> dict[str, Any]:
    rest = {"content-type": "application/json", "properties": {"delivery_info": {}}}
    return {"headers": headers, "body": json.dumps(body), **rest, **members}


def coded(headers: Mapping[str, object], body: bytes) -> dict[str, Any]:
    properties = {"body_encoding": "base64"}
    return payload(headers, None, properties=properties) | {"body": base64.b64encode(body).decode()}


@pytest.mark.parametrize(
    "task",
    [
        payload(HEADERS, BODY),
        payload(HEADERS | {"eta": "2026-01-01T00:00:00+00:00", "timelimit": None}, BODY),
        payload({}, OF_PROTOCOL_1),
        payload(None, {"an": "order"}),
        payload({}, "text of another program"),
        payload(HEADERS, None, **{"content-type": "application/x-yaml"}),
        payload(HEADERS | {"timelimit": [1, 2, 3]}, BODY),
        coded(HEADERS, json.dumps(BODY).encode()),
        coded(
            HEADERS | {"compression": "application/x-gzip"},
            zlib.compress(json.dumps(BODY).encode()),
        ),
    ],
)
def test_what_may_be_a_task_is_not_malformed(task: dict[str, Any]) -> None:
    assert not is_malformed_task(task)


@pytest.mark.parametrize(
    "task",
    [
        payload({"task": "tasks.brew"}, BODY),
        payload(HEADERS | {"task": ["a"]}, BODY),
        payload(HEADERS | {"id": {}}, BODY),
        payload(HEADERS | {"expires": 0}, BODY),
        payload(HEADERS | {"eta": ""}, BODY),
        payload(HEADERS, None),
        payload(HEADERS, 5),
        payload(HEADERS, [1]),
        payload(HEADERS, None) | {"body": "[" * 100_000},
        coded(HEADERS, b"\xff"),
        payload({}, {"task": "tasks.brew"}),
        payload({}, OF_PROTOCOL_1 | {"task": ["a"]}),
    ],
)
def test_a_task_that_celery_fails_to_read_is_malformed(task: dict[str, Any]) -> None:
    assert is_malformed_task(task)


def fail_over(connection: Connection, queue: str, task: Mapping[str, object]) -> None:
    """Consume a task, with a consumer that fails."""
    consumer = connection.Consumer(connection.SimpleQueue(queue).queue, on_message=lambda _: 1 / 0)
    connection.Producer().publish(BODY, routing_key=queue, headers=task)
    with consumer:
        connection.drain_events(timeout=30)


def test_an_error_over_a_malformed_task_makes_it_a_dead_letter(
    connect: Connect, client: Client, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.queue(f"{queue}.dead").create()

    fail_over(connect(), queue, {"task": ["a"]})

    wait_until(lambda: ready(client, f"{queue}.dead") == 1)
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert client.queue(f"{queue}.dead").peek()[0].id in record.getMessage()


@pytest.mark.parametrize("task", [HEADERS, {}])
def test_any_other_error_goes_to_the_caller(
    connect: Connect, client: Client, queue: str, task: Mapping[str, object]
) -> None:
    connection = connect()

    with pytest.raises(ZeroDivisionError):
        fail_over(connection, queue, task)

    connection.close()
    assert ready(client, queue) == 1
