"""Receipt handles: the id of a message and the lease of one receive, opaque to clients."""

from __future__ import annotations

import base64
import zlib
from binascii import Error as Base64Error
from typing import NamedTuple

from mq.names import MessageId, is_message_id
from mq.spool.seal import NO_LEASE
from mq_sqs.faults import RECEIPT_HANDLE_IS_INVALID, SQSError

_BEGIN = b"\1"
"""So that no handle begins with `-`, which a command line takes for a flag."""

_LEASE_BYTES = 8
_HEAD_BYTES = len(_BEGIN) + 4


class LeasedMessage(NamedTuple):
    """What a handle says: a message and the lease of one receive."""

    message_id: MessageId
    lease: int


def make_handle(message_id: MessageId, lease: int) -> str:
    data = lease.to_bytes(_LEASE_BYTES) + message_id.encode()
    return base64.urlsafe_b64encode(_BEGIN + zlib.crc32(data).to_bytes(4) + data).decode()


def read_handle(handle: str) -> LeasedMessage:
    """Read a handle. Raises SQSError for a text that is not a handle of a gateway."""
    try:
        data = base64.b64decode(handle.encode("ascii"), b"-_", validate=True)
        data = data[_HEAD_BYTES:]
        lease, message_id = int.from_bytes(data[:_LEASE_BYTES]), data[_LEASE_BYTES:].decode("ascii")
    except (Base64Error, ValueError):
        raise _invalid() from None
    if lease == NO_LEASE or not is_message_id(message_id):
        raise _invalid()
    if make_handle(MessageId(message_id), lease) != handle:
        raise _invalid()
    return LeasedMessage(MessageId(message_id), lease)


def _invalid() -> SQSError:
    return SQSError(RECEIPT_HANDLE_IS_INVALID, "The input receipt handle is invalid.")
