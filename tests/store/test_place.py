"""Where a message is, and under which name."""

from __future__ import annotations

import pytest

from mq.lifecycle import Folder
from mq.names import MessageId
from mq.store.place import place_in
from tests.support.stores import ORDERS


@pytest.mark.parametrize(
    ("folder", "name"),
    [(Folder.QUEUES, "orders/1"), (Folder.DELAY, "orders:1"), (Folder.NEW, "orders:1")],
)
def test_only_a_ready_message_is_in_the_folder_of_its_queue(folder: Folder, name: str) -> None:
    assert place_in(folder, ORDERS, MessageId("1")) == (folder, ORDERS, "1", name)
