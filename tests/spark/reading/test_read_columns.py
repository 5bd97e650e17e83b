"""Messages as record batches, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mq.config import MIB
from pyspark_mq.reading.read_columns import MessageRow, to_batches


def rows_of(body_bytes: int, property_bytes: int, count: int) -> Iterator[MessageRow]:
    properties = [("x-meta-a", "a" * property_bytes)] if property_bytes else []
    for number in range(count):
        body = b"b" * body_bytes
        yield MessageRow(
            "orders", f"id-{number}", body, "text/plain", 0, 0, "ready", len(body), properties
        )


@pytest.mark.parametrize(
    ("body_bytes", "property_bytes"), [(MIB, 0), (0, MIB), (MIB // 2, MIB // 2)]
)
def test_a_batch_has_about_8_mib_whether_in_bodies_or_in_properties(
    body_bytes: int, property_bytes: int
) -> None:
    batches = list(to_batches(rows_of(body_bytes, property_bytes, 20)))

    assert [batch.num_rows for batch in batches] == [8, 8, 4]


def test_many_small_messages_are_cut_by_their_number() -> None:
    batches = list(to_batches(rows_of(1, 0, 5000)))

    assert [batch.num_rows for batch in batches] == [2000, 2000, 1000]
