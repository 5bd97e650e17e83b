"""The recipes of docs/recipes.md: copies, another name, another machine, tracing, CloudEvents,
KEDA."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mq.client import Client, Queue
from tests.support.examples import EXAMPLES, is_empty, load_example, run_example
from tests.support.processes import Server
from tests.support.sources import REPOSITORY, read_table


def scripts_of(heading: str) -> list[str]:
    """Return the blocks of a section."""
    text = (REPOSITORY / "docs/recipes.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", section)


def run_script(script: str, environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=environment, check=True, text=True,
        stdout=subprocess.PIPE, timeout=60,
    )  # fmt: skip
    return done.stdout


def test_each_reader_gets_a_copy_of_each_message(
    server: Server, orders: Queue, environment: dict[str, str], tmp_path: Path
) -> None:
    [script] = scripts_of("Copies for many readers")
    run_script(script, environment, tmp_path)

    published = orders.publish("two coffees", properties={"x-meta-shop": "north"})

    with Client(server.url) as mq:
        for name in ("orders", "bills", "kitchen"):
            [message] = mq.queue(name).receive_many(10)
            assert (message.id, message.text()) == (published, "two coffees")
            assert message.properties == {"x-meta-shop": "north"}
            mq.queue(name).delete()


def test_a_queue_gets_another_name(
    server: Server, orders: Queue, environment: dict[str, str], tmp_path: Path
) -> None:
    begin, move = scripts_of("Rename a queue")
    begin = begin.replace("-- ./handle-order", "--until-empty -- sed p")
    orders.publish_many(["one\n", "two\n"])
    assert run_script(begin, environment, tmp_path).startswith("created purchases\none\none\ntwo\n")
    with Client(server.url) as mq:
        purchases, dead = mq.queue("purchases"), mq.queue("orders.dead")
        dead.create()
        ids = orders.publish_many(["three", "four", "five"])
        purchases.publish("six")
        dead.move_many("orders", [ids[0]], reason="broken")
        leased = orders.receive()
        assert leased is not None

        run_script(move, environment, tmp_path)

        assert [each.text() for each in purchases.receive_many(10)] == ["five", "six"]
        [died] = mq.queue("purchases.dead").receive_many(10)
        assert (died.id, died.dead_reason) == (ids[0], "broken")
        leased.ack()
        for name in ("purchases", "purchases.dead", "orders.dead"):
            mq.queue(name).delete()
    assert is_empty(orders)


def test_a_queue_moves_to_another_server(
    start_server: Callable[..., Server], orders: Queue, environment: dict[str, str], tmp_path: Path
) -> None:
    [script] = scripts_of("Move to another machine")
    other = start_server()
    script = script.replace("http://NEW:8080", other.url)
    ids = orders.publish_many(["one", b"\xff"])
    orders.publish("three", properties={"x-meta-shop": "north"}, message_id="order-3")
    with Client(other.url) as mq:
        new = mq.queue("orders")
        new.create()

        run_script(script, environment, tmp_path)
        run_script(script.splitlines()[1], environment, tmp_path)

        found = new.receive_many(10)
    assert [each.id for each in found] == [*ids, "order-3"]
    assert [each.body for each in found] == [b"one", b"\xff", b"three"]
    assert found[2].properties == {"x-meta-shop": "north"}
    assert is_empty(orders)


def test_one_trace_goes_through_the_queue(orders: Queue) -> None:
    example, spans = load_example("opentelemetry_trace"), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("orders")

    example.publish(tracer, orders, "two coffees")
    # It keeps its trace when it comes again.
    first = orders.receive()
    assert first is not None
    first.release()
    message = orders.receive()
    assert message is not None
    example.handle(tracer, message)

    sent, processed = spans.get_finished_spans()
    assert (sent.name, processed.name) == ("send orders", "process orders")
    assert processed.context.trace_id == sent.context.trace_id
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert is_empty(orders)


def test_the_trace_is_printed(orders: Queue, environment: dict[str, str]) -> None:
    printed = run_example(environment, sys.executable, "examples/opentelemetry_trace.py")

    assert len(set(re.findall(r'"trace_id": "(\w+)"', printed))) == 1
    assert len(set(re.findall(r'"span_id": "(\w+)"', printed))) == 2


def test_cloud_events_come_back_as_they_were(orders: Queue, environment: dict[str, str]) -> None:
    printed = run_example(environment, sys.executable, "examples/cloudevents_orders.py")

    assert printed == (
        "org.example.order two coffees {'item': 'two coffees'}\n"
        "org.example.order ein Stück Kuchen {'item': 'ein Stück Kuchen'}\n"
    )


def test_a_cloud_event_may_be_posted_by_anything_that_speaks_their_binding(
    server: Server, orders: Queue
) -> None:
    example = load_example("cloudevents_orders")
    sent = example.http.to_binary_event(example.order("two coffees"))
    request = urllib.request.Request(
        f"{server.url}/orders/messages", data=sent.body, headers=sent.headers, method="POST"
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201

    message = orders.receive()

    assert message is not None
    event, original = example.event_of(message), example.http.from_http_event(sent)
    assert event.get_attributes() == original.get_attributes()
    assert event.get_data() == {"item": "two coffees"}


@pytest.fixture
def triggers() -> dict[str, dict[str, Any]]:
    """Return the triggers by type."""
    scaled, _ = yaml.safe_load_all((EXAMPLES / "keda.yaml").read_text())
    return {each["type"]: each["metadata"] for each in scaled["spec"]["triggers"]}


def test_keda_finds_the_value_in_the_answer(
    server: Server, orders: Queue, triggers: dict[str, dict[str, Any]]
) -> None:
    trigger = triggers["metrics-api"]
    orders.publish_many(["one", "two", "three"])

    path = trigger["url"].removeprefix("http://mq.shop.svc:8080")
    with urllib.request.urlopen(server.url + path) as answer:
        found = json.load(answer)
    for name in trigger["valueLocation"].split("."):
        found = found[name]

    assert found == 3
    assert float(trigger["targetValue"]) > 0


def test_keda_is_answered_under_the_name_of_the_service(
    start_server: Callable[..., Server], triggers: dict[str, dict[str, Any]]
) -> None:
    host = triggers["metrics-api"]["url"].split("/")[2]
    [name] = re.findall(r"--allowed-host (\S+)", (EXAMPLES / "keda.yaml").read_text())
    server = start_server(f"--allowed-host={name}")
    with Client(server.url) as mq:
        mq.queue("orders").create()

    request = urllib.request.Request(f"{server.url}/orders", headers={"Host": host})

    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_keda_asks_prometheus_for_a_series_that_there_is(
    server: Server, orders: Queue, triggers: dict[str, dict[str, Any]]
) -> None:
    orders.publish("one")
    orders.receive()
    orders.publish("two")
    query = triggers["prometheus"]["query"]
    # Each server of a root tells the same figures: they are not to be added up.
    shape = r'sum\(max by \(state\) \((\w+)\{queue="(\w+)",state=~"([\w|]+)"\}\)\)'
    [(metric, queue, states)] = re.findall(shape, query)

    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics") as answer:
        series = answer.read().decode()

    found = re.findall(rf'{metric}\{{queue="{queue}",state="(?:{states})"\}} (\S+)', series)
    assert sum(map(float, found)) == 2


def test_the_queries_of_the_document_name_metrics_that_there_are() -> None:
    queries = [query.strip("`") for _, query in read_table("docs/recipes.md", "## Prometheus")]
    listed = (REPOSITORY / "docs/operations.md").read_text()

    assert len(queries) >= 5
    for query in queries:
        named = set(re.findall(r"mq_\w+", query))
        assert named
        assert {name for name in named if f"{name}{{" not in listed} == set()
