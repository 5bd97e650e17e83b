"""Which queues a reader that names them, or matches them, reads."""

from __future__ import annotations

import pytest

from pyspark_mq.options.queue_patterns import match_queues


@pytest.mark.parametrize(
    ("patterns", "matched"),
    [
        (("orders.*",), ["orders.de", "orders.fr"]),
        (("*",), ["orders", "orders.de", "orders.fr", "returns"]),
        ((), ["orders", "orders.de", "orders.fr", "returns"]),
        (("*.dead",), ["orders.dead"]),
        (("returns", "orders", "*"), ["returns", "orders", "orders.de", "orders.fr"]),
        (("orders.[df]?",), ["orders.de", "orders.fr"]),
        (("orders.dead",), ["orders.dead"]),
    ],
)
def test_a_pattern_matches_queues_but_dead_letters_only_when_asked_for(
    patterns: tuple[str, ...], matched: list[str]
) -> None:
    existing = ["returns", "orders.fr", "orders", "orders.dead", "orders.de"]

    assert match_queues(patterns, existing) == matched
