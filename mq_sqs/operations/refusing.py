"""Operations of SQS that the gateway does not have. It says so, and does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from mq_sqs.faults import UNSUPPORTED_OPERATION, SQSError

_PERMISSIONS = (
    "mq-sqs has no permissions of its own: give each client a token with --token-file, and change "
    "that file."
)

REFUSED: Mapping[str, str] = {
    "AddPermission": _PERMISSIONS,
    "RemovePermission": _PERMISSIONS,
}
"""The sentence for each of these operations."""


def refuse(operation: str) -> NoReturn:
    raise SQSError(UNSUPPORTED_OPERATION, REFUSED[operation])
