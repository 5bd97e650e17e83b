"""Receipt handles: the id of a message and the lease of one receive, opaque to clients. One of
another queue is invalid."""

from __future__ import annotations

import binascii
import struct
import zlib
from typing import NamedTuple

from mq.names import MessageId, QueueName, is_message_id
from mq.spool.message.seal import NO_LEASE
from mq_sqs.faults import RECEIPT_HANDLE_IS_INVALID, SQSError

_BEGIN = 1
"""The first byte, so that every handle begins with `A`, and none like a path."""

_HEAD = struct.Struct(">BI")
_LEASED = struct.Struct(">BIQ")
"""What a handle begins with: 1, the CRC-32 of the queue's name and of what follows, and the lease.
The id follows."""

_FROM_URL = bytes.maketrans(b"-_", b"+/")
"""From the alphabet for URLs. Older gateways gave such handles, which outlive them."""


class LeasedMessage(NamedTuple):
    """What a handle says: a message and the lease of one receive."""

    message_id: MessageId
    lease: int


def make_handle(queue: QueueName, message_id: MessageId, lease: int) -> str:
    data = lease.to_bytes(8) + message_id.encode()
    return _encode(_HEAD.pack(_BEGIN, _check_of(queue, data)) + data).decode()


def read_handle(queue: QueueName, handle: str) -> LeasedMessage:
    """Read a handle. Raises SQSError for a text that is not a handle of this queue."""
    try:
        text = handle.encode("ascii").translate(_FROM_URL)
        whole = binascii.a2b_base64(text)
        begin, check, lease = _LEASED.unpack_from(whole)
        message_id = whole[_LEASED.size :].decode("ascii")
    except (ValueError, struct.error):
        raise _invalid(handle) from None
    # What is decoded may have been written in several ways, of which one is a handle.
    if (
        begin != _BEGIN
        or lease == NO_LEASE
        or check != _check_of(queue, whole[_HEAD.size :])
        or not is_message_id(message_id)
        or _encode(whole) != text
    ):
        raise _invalid(handle)
    return LeasedMessage(MessageId(message_id), lease)


def _check_of(queue: QueueName, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(queue.encode()))


def _encode(data: bytes) -> bytes:
    # Amazon's alphabet, not that for URLs: its extended client for Python cuts a handle at a dash.
    return binascii.b2a_base64(data, newline=False)


def _invalid(handle: str) -> SQSError:
    return SQSError(
        RECEIPT_HANDLE_IS_INVALID,
        f'The input receipt handle "{handle[:1024]}" is not a valid receipt handle.',
    )
