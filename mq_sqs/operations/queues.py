"""Queues: make, find, list and delete them; their attributes and tags."""

from __future__ import annotations

import base64
import time
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from mq.commit.operation import InWorker, Operation
from mq.errors import QueueNotFound
from mq.names import QueueName, is_fifo
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.shared_state import Workspace
from mq.web.tokens import Scope
from mq_sqs.calls import Operations, Result, SqsCall, read_number
from mq_sqs.faults import (
    INVALID_ATTRIBUTE_VALUE,
    INVALID_PARAMETER_VALUE,
    QUEUE_NAME_EXISTS,
    UNSUPPORTED_OPERATION,
    SQSError,
    missing,
    unknown_attribute,
)
from mq_sqs.fifo.attributes import check_together, check_type
from mq_sqs.queues.queue_attributes import (
    COUNTS,
    CREATED,
    KNOWN,
    MODIFIED,
    NEW_QUEUE,
    attributes_of,
    changes_of,
    find_conflict,
)
from mq_sqs.queues.redrive_policies import (
    REDRIVE,
    dead_letter_sources_in,
    may_redrive,
    read_redrive_policy,
    wrong_redrive,
)
from mq_sqs.queues.tags import MAX_TAGS, tag_changes, tags_of, untag_changes

_MAX_RESULTS = 1000


async def create_queue(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    """Create a queue. A queue that has all of the attributes already is as good as a new one."""
    attributes, tags = call.values.get("Attributes", {}), call.values.get("tags", {})
    _check_tags(tags)
    check_type(queue, attributes)
    changes = changes_of(queue, attributes) | tag_changes(tags)
    await _check_dead_letters(operations, call, queue, attributes)
    async with operations.turn(queue):
        settings = await _settings_of(operations, queue)
        check_together(settings, changes)
        is_made = settings is not None and CREATED in settings.notes
        if settings is not None:
            other = find_conflict(queue, attributes, settings, operations.visibility_seconds)
            if other is not None:
                raise SQSError(
                    QUEUE_NAME_EXISTS,
                    "A queue already exists with the same name and a different value for attribute "
                    f"{other}",
                )
        # Another gateway may have made it a moment ago. From here on it survives a power cut.
        if is_made and not await operations.store.create_queue(queue):
            return _url(operations, call, queue)
        if settings is None or is_made:  # In the second case it was deleted just now.
            # `CREATED` is to the second, and a queue can be made again at once.
            earlier = await operations.fifo.forgetting() if is_fifo(queue) else {}
            changes = {**NEW_QUEUE, **earlier, **changes}
        await operations.store.create_queue(queue, changes | _stamps(CREATED, MODIFIED))
    return _url(operations, call, queue)


async def _settings_of(operations: Operations, queue: QueueName) -> QueueSettings | None:
    """Return the settings that a queue has now, or None if there is no such queue."""
    try:
        return await operations.store.read_settings(queue)
    except QueueNotFound:
        return None


async def get_queue_url(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    return _url(operations, call, queue)


async def delete_queue(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    await operations.store.delete_queue(queue)
    return {}


async def purge_queue(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    """Purge a queue. It is done when it is answered, so a client need not wait a minute before the
    next purge."""
    await operations.keeper_of(queue).purge(queue)
    return {}


async def list_queues(operations: Operations, call: SqsCall, queue: None) -> Result:
    prefix = call.values.get("QueueNamePrefix", "")
    names = [each for each in await operations.store.list_queues() if each.startswith(prefix)]
    return _page(operations, call, names, "QueueUrls")


async def list_dead_letter_source_queues(
    operations: Operations, call: SqsCall, queue: QueueName
) -> Result:
    names = [name for name in await dead_letter_sources(operations, queue) if _may_see(call, name)]
    return _page(operations, call, names, "queueUrls")


async def dead_letter_sources(operations: Operations, queue: QueueName) -> list[QueueName]:
    """Return the queues whose dead letters go to `queue`. Raises StoreUnavailable."""

    def find(work: Workspace) -> Operation[list[QueueName]]:
        # One call for all queues: there may be thousands.
        found: list[QueueName] = yield InWorker(dead_letter_sources_in, work.spool, queue)
        return found

    return await operations.store.run(find)


# Attributes and tags


async def get_queue_attributes(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    asked = call.values.get("AttributeNames", [])
    for name in asked:
        if name not in KNOWN and name != "All":
            raise unknown_attribute(name)
    settings = await operations.store.read_settings(queue)
    found = attributes_of(queue, settings, operations.visibility_seconds, operations.addressing)
    if "All" in asked or not COUNTS.keys().isdisjoint(asked):
        counts = asdict(await operations.store.describe_queue(queue))
        found |= {name: str(counts[state]) for name, state in COUNTS.items()}
    if "All" not in asked:
        found = {name: found[name] for name in asked if name in found}
    return {"Attributes": found} if found else {}


async def set_queue_attributes(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    attributes = call.values["Attributes"]
    if not attributes:
        raise missing("Attributes")
    changes = changes_of(queue, attributes)
    await _check_dead_letters(operations, call, queue, attributes)
    async with operations.turn(queue):
        check_together(await operations.store.read_settings(queue), changes)
        await operations.store.change_settings(queue, changes | _stamps(MODIFIED))
    if is_fifo(queue):
        await operations.fifo.look_at_settings(queue)
    return {}


async def list_queue_tags(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    tags = tags_of(await operations.store.read_settings(queue))
    return {"Tags": tags} if tags else {}


async def tag_queue(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    tags = call.values["Tags"]
    if not tags:
        raise missing("Tags")
    async with operations.turn(queue):
        _check_tags(tags_of(await operations.store.read_settings(queue)) | tags)
        await operations.store.change_settings(queue, tag_changes(tags))
    return {}


async def untag_queue(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    await operations.store.change_settings(queue, untag_changes(call.values["TagKeys"]))
    return {}


async def _check_dead_letters(
    operations: Operations, call: SqsCall, queue: QueueName, attributes: Mapping[str, str]
) -> None:
    """Raise SQSError if the queue for dead letters is missing, or does not want them, or there can
    be none here, and Forbidden if the caller's token is not for it."""
    text = attributes.get("RedrivePolicy", "")
    policy = read_redrive_policy(text)
    if policy is None:
        return
    if not await operations.store.call(lambda work: work.spool.has_seals):
        raise SQSError(
            UNSUPPORTED_OPERATION,
            f"{REDRIVE}: the file system of the root has no extended attributes, so nobody counts "
            "how often a message is received; move the root to ext4, xfs or btrfs.",
        )
    if call.token is not None:
        call.token.require(Scope.ADMIN, policy.queue)
    try:
        target = await operations.store.read_settings(policy.queue)
    except QueueNotFound:
        raise wrong_redrive(text, "Dead letter target does not exist") from None
    if is_fifo(policy.queue) != is_fifo(queue):
        raise wrong_redrive(text, "Dead-letter queue must be same type of queue as the source")
    if policy.queue == queue:
        raise wrong_redrive(text, "a queue cannot be its own dead letter target")
    if not may_redrive(operations.addressing.arn_of(queue), target):
        raise SQSError(
            INVALID_ATTRIBUTE_VALUE,
            f"The RedriveAllowPolicy of {policy.queue} does not allow dead letters of {queue}.",
        )


def _check_tags(tags: Mapping[str, str]) -> None:
    if len(tags) > MAX_TAGS:
        raise SQSError(INVALID_PARAMETER_VALUE, f"Too many tags: a queue has up to {MAX_TAGS}.")


def _stamps(*notes: str) -> dict[str, str]:
    return dict.fromkeys(notes, str(int(time.time())))


def _may_see(call: SqsCall, queue: QueueName) -> bool:
    return call.token is None or call.token.is_for(queue)


def _url(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    return {"QueueUrl": operations.addressing.url_of(queue, call.base)}


# Pages


def _page(
    operations: Operations, call: SqsCall, names: Sequence[QueueName], member: str
) -> dict[str, object]:
    """Return the next queues in the order of their names. The token names the last one of the page
    before. Without MaxResults there is one page, as Amazon says."""
    asked = read_number(call.values, "MaxResults", 1, _MAX_RESULTS)
    token = call.values.get("NextToken")
    after = "" if token is None else _read_token(token)
    left = [name for name in names if name > after]
    page = left[: asked or _MAX_RESULTS]
    result: dict[str, object] = {}
    if page:
        result[member] = [operations.addressing.url_of(name, call.base) for name in page]
    if asked is not None and len(left) > len(page):
        result["NextToken"] = base64.urlsafe_b64encode(page[-1].encode()).decode()
    return result


def _read_token(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode("ascii")
    except (Base64Error, ValueError):
        raise SQSError(INVALID_PARAMETER_VALUE, "Invalid NextToken value.") from None
