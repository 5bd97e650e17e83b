"""Names of batches, and of what else is hidden in `new`."""

from __future__ import annotations

from mq.names import QueueName
from mq.spool.batch_names import new_batch_name, parse_batch_name


def test_names_of_batches_are_told_from_uploads_and_probes() -> None:
    batch = new_batch_name(QueueName("orders"))

    assert parse_batch_name(batch.sealed) == parse_batch_name(batch.open) == batch
    others = [".0123456789abcdef", ".probe-1+:ab", "orders:1", ".:1", ".a b:1"]
    assert [parse_batch_name(name) for name in others] == [None] * 5
