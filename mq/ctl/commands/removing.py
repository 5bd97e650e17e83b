"""Messages that were received and written somewhere leave their queue."""

from __future__ import annotations

from mq.ctl.ways.access import Access, ShownMessage, exit_code_of
from mq.errors import CommandFailed, ExitCode, MQError
from mq.names import MessageId, QueueName


def remove_written(access: Access, queue: QueueName, message: ShownMessage) -> bool:
    """Remove a received message under its lease. Returns False if that was over."""
    lease = None if message.lease is None else int(message.lease, 16)
    try:
        access.remove(queue, MessageId(message.message_id), lease)
    except MQError as error:
        if exit_code_of(error) not in (ExitCode.REFUSED, ExitCode.NOT_FOUND):
            raise
        return False
    return True


def kept_in_the_queue(kept: int, written: int) -> CommandFailed:
    """Return the error that says that messages were written and not removed."""
    return CommandFailed(
        ExitCode.TRY_AGAIN,
        f"{kept} of {written} messages were written but are still in the queue: "
        "they came back before they were removed",
    )
