"""What the settings of a queue, or else the server's flags, say of its messages; and changing them,
which wakes requests that waited for the end of a pause."""

from __future__ import annotations

from collections.abc import Mapping

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.config import SECOND_NS
from mq.errors import InvalidRequest, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName, is_queue_name
from mq.spool.queue import settings_file
from mq.spool.queue.queue_settings import DeadLetterRule, QueueSettings
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq.spool.spool import Spool
from mq.store.shared_state import Workspace, no_queue


def visibility_ns(work: Workspace, settings: QueueSettings, asked_ns: int | None) -> int:
    """Return how long a received message is hidden, in ns: as long as its receiver asks for, or
    else as its queue, or else as the server says."""
    if asked_ns is not None:
        return asked_ns
    own = settings.visibility_seconds
    return int((work.config.visibility_seconds if own is None else own) * SECOND_NS)


def delay_ns(work: Workspace, queue: QueueName) -> int:
    """Return how long a message is hidden if its producer does not say, in ns."""
    return int((work.settings.of(queue).delay_seconds or 0) * SECOND_NS)


def dead_letter_rule(work: Workspace, queue: QueueName) -> DeadLetterRule:
    return work.settings.of(queue).dead_letter_rule(queue, work.config.max_receives)


def change_settings(
    work: Workspace, queue: QueueName, changes: Mapping[str, str]
) -> Operation[None]:
    """Change some settings of a queue. On return they survive a power cut, and have effect here.

    A crash before that leaves the old settings or the new ones. Raises InvalidRequest,
    QueueNotFound, StoreUnavailable.
    """
    require_copies(work, changes)
    try:
        yield InWorker(settings_file.change_settings, work.spool, queue, changes)
    except (FileNotFoundError, NotADirectoryError):
        raise no_queue(queue) from None
    except BlockingIOError as error:
        raise StoreUnavailable(f"queue {queue}: {error.strerror}; try again in a moment") from None
    except IsADirectoryError:
        raise StoreUnavailable(
            f"{Folder.QUEUES}/{queue}/{SETTINGS_FILE} is a folder, in the way of the queue's "
            "settings; move it away, or have mqctl fsck --repair do it, and try again"
        ) from None
    work.require_queue(queue)
    yield Unsynced((), (f"{Folder.QUEUES}/{queue}",))
    work.settings.forget(queue)
    work.settings.of(queue)


def require_copies(work: Workspace, changes: Mapping[str, str]) -> None:
    """Raise InvalidRequest if changes name a queue for copies that is not there. One that is
    deleted later gets none: see `mq.store.publishing.batch`."""
    for each in changes.get("also", "").split(","):
        if is_queue_name(each) and not work.spool.queues.is_there(each):
            raise InvalidRequest(f"setting also: there is no queue {each}; make it first")


def settings_of(spool: Spool, queue: QueueName) -> QueueSettings:
    """Return the settings as they are now. For a worker. Raises QueueNotFound, OSError."""
    try:
        return settings_file.settings_in(spool, queue)
    except (FileNotFoundError, NotADirectoryError):
        raise no_queue(queue) from None
