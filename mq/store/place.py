"""The place of a message: the folder that it is in, and its name there."""

from __future__ import annotations

from typing import NamedTuple

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path


class Place(NamedTuple):
    """The place of a message: `name` is relative to the folder."""

    folder: Folder
    queue: QueueName
    message_id: MessageId
    name: str


def place_in(folder: Folder, queue: QueueName, message_id: MessageId) -> Place:
    """Return the place that the message has in this folder, or would have."""
    is_ready = folder is Folder.QUEUES
    name = queue_path(queue, message_id) if is_ready else file_name(queue, message_id)
    return Place(folder, queue, message_id, name)
