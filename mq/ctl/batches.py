"""A batch without a server: what a server does in several threads, one step after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mq.config import OWN_ID_WAIT_SECONDS, ServerConfig
from mq.ctl.runner import Runner
from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.operation import unavailable
from mq.store.batch import Batch, Entry, seal_batch, take_ids
from mq.store.workspace import Retry
from mq.web.batch_lines import parse_batch

_DEFAULTS = ServerConfig()


def publish_batch(runner: Runner, queue: QueueName, text: bytes) -> list[MessageId]:
    """Publish the lines of a batch, all or nothing. Raises InvalidBatch, BodyTooLarge, IdTaken,
    QueueNotFound, StoreUnavailable."""
    entries = parse_batch(text, _DEFAULTS.max_body_bytes)
    ids = runner.run(take_ids(runner.work, queue, entries))
    assert not isinstance(ids, Retry), "without a server there is no limit to a queue"
    try:
        batch = _fill(runner, queue, entries, ids)
        try:
            if not all(published.is_duplicate for published in batch.published):
                runner.run(seal_batch(runner.work, batch))
                batch.deliver()
        finally:
            batch.close()
    except OSError as error:
        raise unavailable(error) from error
    return ids


def _fill(
    runner: Runner, queue: QueueName, entries: Sequence[Entry], ids: Sequence[MessageId]
) -> Batch:
    deadline = time.monotonic() + OWN_ID_WAIT_SECONDS
    while time.monotonic() < deadline:
        batch = Batch(runner.work, queue)
        is_filled = False
        try:
            is_filled = batch.fill(entries, ids) is None
        finally:
            if not is_filled:
                batch.close()
        if is_filled:
            return batch
        time.sleep(0.005)
    raise StoreUnavailable("an id of the batch is just being published; try again")
