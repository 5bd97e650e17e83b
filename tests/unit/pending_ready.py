"""What the ready index does not do yet. Run by name: `pytest tests/unit/pending_ready.py`."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.messages import new_id, write_message
from tests.stores import drain, publish, receive, store_on


async def test_queue_made_again_with_the_same_inode_has_its_own_messages_at_once(
    root: Path, orders: Path
) -> None:
    """The fetch that learns of it from the events answers 204: within the pause between two
    listings it does not notice that its index was dropped meanwhile. Lost events do the same."""
    async with store_on(root) as store:
        for _ in range(3):
            await publish(store, b"old")
        assert (await receive(store)).body == b"old"

        inode = orders.stat().st_ino
        shutil.rmtree(orders)
        orders.mkdir()
        assert orders.stat().st_ino == inode
        fresh = write_message(orders / new_id(), b"new").name

        assert await drain(store) == [fresh]
