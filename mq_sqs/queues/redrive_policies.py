"""Which queue takes a queue's dead letters, and which queues may send it theirs, as SQS says it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

from mq.errors import QueueNotFound
from mq.names import QueueName
from mq.spool.queue.queue_settings import QueueSettings
from mq.spool.spool import Spool
from mq.store.queue.settings import settings_of
from mq_sqs.faults import INVALID_PARAMETER_VALUE, SQSError, wrong_value
from mq_sqs.queues.addresses import queue_of_arn

REDRIVE = "RedrivePolicy"
REDRIVE_ALLOW = "RedriveAllowPolicy"

MAX_RECEIVE_COUNT = 1000

_MEMBERS = ("maxReceiveCount", "deadLetterTargetArn")

ALLOW_NOTE = "sqs.redrive-allow"

_COUNT = re.compile("[0-9]{1,9}")


class DeadLetters(NamedTuple):
    """A redrive policy: where messages go that were received too often."""

    queue: QueueName
    max_receives: int


def read_redrive_policy(text: str) -> DeadLetters | None:
    """Read a redrive policy. Returns None for an empty text, which takes the policy away. Raises
    SQSError."""
    if not text:
        return None
    policy = _object_in(text)
    if policy is None:
        raise wrong_redrive(text, "Redrive policy is not a valid JSON map")
    for name in _MEMBERS:
        if name not in policy:
            why = f"Redrive policy does not contain mandatory attribute: {name}"
            raise wrong_redrive(text, why)
    if policy.keys() - set(_MEMBERS):
        raise wrong_redrive(text, "it has deadLetterTargetArn and maxReceiveCount alone")
    count, arn = (policy[name] for name in _MEMBERS)
    queue = queue_of_arn(arn) if isinstance(arn, str) else None
    if queue is None:
        raise wrong_redrive(text, "Invalid value for deadLetterTargetArn")
    digits = str(count) if type(count) in (int, str) else ""
    if not _COUNT.fullmatch(digits) or not 1 <= int(digits) <= MAX_RECEIVE_COUNT:
        raise wrong_redrive(
            text,
            f"Invalid value for maxReceiveCount: {str(count)[:40]}, valid values are from 1 to "
            f"{MAX_RECEIVE_COUNT} both inclusive",
        )
    return DeadLetters(queue, int(digits))


def wrong_redrive(text: str, why: str) -> SQSError:
    """Return what is wrong with a redrive policy. Amazon's error for it is not the one for other
    attributes."""
    return SQSError(
        INVALID_PARAMETER_VALUE,
        f"Value {text[:500]} for parameter {REDRIVE} is invalid. Reason: {why}.",
    )


def dead_letters_of(queue: QueueName, settings: QueueSettings) -> DeadLetters | None:
    max_receives, dead = settings.dead_letter_rule(queue, 0)
    return DeadLetters(dead[0], max_receives) if dead and max_receives else None


def dead_letter_sources_in(spool: Spool, dead: QueueName) -> list[QueueName]:
    """Return the queues whose dead letters go to `dead`, sorted. For a worker: it reads the
    settings of every queue. Raises OSError."""
    sources = []
    for queue in spool.queue_names():
        with suppress(QueueNotFound):  # It was deleted just now.
            found = dead_letters_of(queue, settings_of(spool, queue))
            if found is not None and found.queue == dead:
                sources.append(queue)
    return sources


def check_allow_policy(text: str) -> str:
    """Return an allow policy as it is kept, empty for an empty one. Raises SQSError."""
    policy = _object_in(text)
    if policy is None:
        raise wrong_value(REDRIVE_ALLOW, "it must be an object of JSON")
    if not policy:
        return ""
    permission, arns = policy.get("redrivePermission"), policy.get("sourceQueueArns")
    if policy.keys() - {"redrivePermission", "sourceQueueArns"} or permission not in (
        "allowAll",
        "denyAll",
        "byQueue",
    ):
        raise wrong_value(REDRIVE_ALLOW, "redrivePermission is allowAll, denyAll or byQueue")
    if (permission == "byQueue") != (arns is not None):
        raise wrong_value(REDRIVE_ALLOW, "sourceQueueArns goes with byQueue, and with that only")
    if arns is not None and not (
        isinstance(arns, list)
        and 1 <= len(arns) <= 10
        and all(isinstance(each, str) and queue_of_arn(each) for each in arns)
    ):
        raise wrong_value(REDRIVE_ALLOW, "sourceQueueArns must be 1 to 10 ARNs of queues")
    return json.dumps(policy, separators=(",", ":"), sort_keys=True)


def may_redrive(source_arn: str, target: QueueSettings) -> bool:
    """Return whether the target's policy lets a queue send it dead letters. ARNs are compared by
    the name of the queue. A policy that a person has spoiled counts as none."""
    try:
        policy = json.loads(check_allow_policy(target.notes.get(ALLOW_NOTE, "")) or "{}")
    except SQSError:
        return True
    if policy.get("redrivePermission") == "byQueue":
        return queue_of_arn(source_arn) in map(queue_of_arn, policy["sourceQueueArns"])
    return bool(policy.get("redrivePermission") != "denyAll")


def _object_in(text: str) -> dict[str, Any] | None:
    """Return the object in a text, which may be empty, or None if it has none."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
