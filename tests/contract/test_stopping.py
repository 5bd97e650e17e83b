"""A server that stops: whoever has connected is answered."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.conftest import Server, wait_until
from tests.contract.conftest import Wire, server_end

Connect = Callable[[Server], Wire]


@pytest.mark.parametrize("beginning", [b"", b"PUT /ord"], ids=["nothing", "a piece"])
def test_a_connection_that_has_just_come_may_send_its_first_request(
    start_server: Callable[..., Server], connect: Connect, beginning: bytes
) -> None:
    """Nobody could tell that client to send it again: it would see a connection that is reset."""
    server = start_server()
    for each in [connect(server) for _ in range(3)]:
        assert each.request("PUT", "/known").status in (200, 201)
    wire = connect(server)
    wire.send(beginning)
    wait_until(lambda: server_end(server, wire.local_port) == (True, 0))
    assert connect(server).request("PUT", "/later").status == 201  # it was accepted before that

    server.popen.send_signal(signal.SIGTERM)
    wait_until(lambda: "event=stopping" in server.log())
    wire.send(b"PUT /orders HTTP/1.1\r\nHost: mq\r\n\r\n"[len(beginning) :])

    assert wire.answer().status == 201
    assert wire.is_closed()
    assert server.popen.wait(15) == 0


def test_a_connection_that_stays_silent_does_not_hold_the_stop_up(
    start_server: Callable[..., Server], connect: Connect
) -> None:
    server = start_server()
    wire = connect(server)
    assert connect(server).request("PUT", "/later").status == 201

    assert server.stop() == 0

    assert wire.is_closed()
