"""With tokens: a queue sends its dead letters only where its owner may."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import Server
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, WireAnswer, assert_problem

ADMIN = "admin-mP2sYw8LrBgkT3vVt9xkq3=="
CHIEF = "chief-9xkq3mP2sYw8LrBgkT3vVt"


@pytest.fixture
def wire(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], tmp_path: Path
) -> Wire:
    tokens = make_token_file(
        tmp_path, f"admin read,admin * {ADMIN}", f"chief read,admin orders* {CHIEF}"
    )
    return connect(start_server(f"--token-file={tokens}"))


def _put(wire: Wire, settings: str, token: str) -> WireAnswer:
    return wire.request("PUT", f"/orders{settings}", authorization=f"Bearer {token}")


def test_a_bound_token_sends_no_dead_letters_to_other_queues(wire: Wire) -> None:
    """It could publish there otherwise, and make queues."""
    assert _put(wire, "", CHIEF).status == 201

    for name in ("bills.failed", "%62ills.failed", "absent"):
        answer = _put(wire, f"?max-receives=1&dead-letters={name}", CHIEF)
        assert_problem(answer, 403, "forbidden")
    assert _put(wire, "?dead-letters=orders.failed", CHIEF).status == 200
    assert _put(wire, "?dead-letters=", CHIEF).status == 200
    assert_problem(_put(wire, "?dead-letters=a:b", CHIEF), 400, "invalid-request")

    assert _put(wire, "?dead-letters=bills.failed", ADMIN).status == 200
    found = wire.request("GET", "/orders", authorization=f"Bearer {CHIEF}").json()
    assert found["settings"] == {"dead-letters": "bills.failed"}
