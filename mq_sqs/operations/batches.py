"""What the four batches have in common: up to ten entries, each with an id of its own, and each of
which succeeds or fails by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mq_sqs.faults import (
    BATCH_ENTRY_IDS_NOT_DISTINCT,
    EMPTY_BATCH_REQUEST,
    INVALID_BATCH_ENTRY_ID,
    TOO_MANY_ENTRIES,
    SQSError,
)
from mq_sqs.protocol import Values

MAX_ENTRIES = 10

_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def check_entries(entries: Sequence[Values], operation: str) -> None:
    """Raise SQSError for a batch that is wrong as a whole."""
    if not entries:
        raise SQSError(
            EMPTY_BATCH_REQUEST,
            f"There should be at least one {operation}RequestEntry in the request.",
        )
    if len(entries) > MAX_ENTRIES:
        raise SQSError(
            TOO_MANY_ENTRIES,
            f"Maximum number of entries per request are {MAX_ENTRIES}. "
            f"You have sent {len(entries)}.",
        )
    ids = [entry["Id"] for entry in entries]
    if not all(map(_ID.fullmatch, ids)):
        raise SQSError(
            INVALID_BATCH_ENTRY_ID,
            "A batch entry id can only contain alphanumeric characters, hyphens and "
            "underscores. It can be at most 80 letters long.",
        )
    if len(set(ids)) < len(ids):
        repeated = next(each for at, each in enumerate(ids) if each in ids[:at])
        raise SQSError(BATCH_ENTRY_IDS_NOT_DISTINCT, f"Id {repeated} repeated.")


def answer_batch(
    successful: Iterable[Mapping[str, Any]], failed: Mapping[str, SQSError]
) -> dict[str, Any]:
    """Return the answer to a batch. `failed` has the errors by the ids of their entries."""
    result: dict[str, Any] = {"Successful": list(successful)}
    result["Failed"] = [
        {
            "Id": entry_id,
            "SenderFault": error.fault.is_senders,
            "Code": error.fault.code,
            "Message": str(error),
        }
        for entry_id, error in failed.items()
    ]
    return {member: each for member, each in result.items() if each}
