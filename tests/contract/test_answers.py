"""What every answer about messages has, whether the connection goes on after it or not."""

from __future__ import annotations

import os

import pytest

from tests.conftest import Server
from tests.contract.conftest import Wire


@pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r"])
def test_a_type_that_a_person_wrote_cannot_break_a_header(
    server: Server, wire: Wire, queue: str, line_break: str
) -> None:
    path = server.root / "queues" / queue / wire.publish(queue)
    try:
        os.setxattr(path, "user.mime_type", f"text/plain{line_break}X-Planted: yes".encode())
    except OSError:
        pytest.skip("this file system has no extended attributes")

    answer = wire.receive(queue)

    assert (answer.status, answer.body) == (200, b"body")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "x-planted" not in answer.headers
