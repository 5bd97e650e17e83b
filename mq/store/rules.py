"""The rules of a queue: what its settings say, or else the server's flags."""

from __future__ import annotations

from mq.config import SECOND_NS
from mq.names import QueueName
from mq.spool.queue_settings import DeadLetterRule, QueueSettings
from mq.store.context import Workspace


def visibility_ns(work: Workspace, settings: QueueSettings) -> int:
    """Return how long a received message is hidden if its receiver does not say, in ns."""
    own = settings.visibility_seconds
    return int((work.config.visibility_seconds if own is None else own) * SECOND_NS)


def delay_ns(work: Workspace, queue: QueueName) -> int:
    """Return how long a message is hidden if its producer does not say, in ns."""
    return int((work.settings.of(queue).delay_seconds or 0) * SECOND_NS)


def dead_letter_rule(work: Workspace, queue: QueueName) -> DeadLetterRule:
    return work.settings.of(queue).dead_letter_rule(queue, work.config.max_receives)
