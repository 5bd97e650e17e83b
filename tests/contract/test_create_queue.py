"""4.1 PUT /QUEUE"""

from __future__ import annotations

from tests.conftest import Server
from tests.contract.conftest import Wire


def test_put_creates_a_queue_and_says_where(wire: Wire, server: Server) -> None:
    answer = wire.request("PUT", "/orders")

    assert answer.status == 201
    assert answer.headers["location"] == "/orders"
    assert answer.body == b""
    assert (server.root / "queues" / "orders").is_dir()


def test_put_of_an_existing_queue_answers_200_and_keeps_its_messages(wire: Wire) -> None:
    wire.request("PUT", "/orders")
    wire.request("POST", "/orders/messages", b"one")

    assert wire.request("PUT", "/orders").status == 200
    assert wire.request("GET", "/orders/messages").body == b"one"
