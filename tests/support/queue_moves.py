"""Moves between queues of a store, as tests make them and look at what they leave."""

from __future__ import annotations

from pathlib import Path

from mq.names import QueueName
from mq.store.moving.move import Moving
from mq.store.store import Store
from tests.support.stores import ORDERS

DEAD, OTHER = QueueName("orders.dead"), QueueName("other")
TO_DEAD = Moving(ORDERS, DEAD)
BACK = Moving(DEAD, ORDERS)
MANY = 1000


async def with_dead(store: Store) -> Store:
    await store.create_queue(DEAD)
    return store


def places(root: Path, message_id: str) -> list[str]:
    """Return every name that the message has, from the root on."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and path.name.rpartition(":")[2] == message_id
    )
