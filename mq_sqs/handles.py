"""Receipt handles: the id of a message and the lease of one receive, opaque to clients."""

from __future__ import annotations

import binascii
import zlib
from typing import NamedTuple

from mq.names import MessageId, is_message_id
from mq.spool.seal import NO_LEASE
from mq_sqs.faults import RECEIPT_HANDLE_IS_INVALID, SQSError

_BEGIN = b"\1"
"""So that no handle begins with `-`, which a command line takes for a flag."""

_LEASE_BYTES = 8
_HEAD_BYTES = len(_BEGIN) + 4

_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")
"""From Base64 to its alphabet for URLs, and back."""


class LeasedMessage(NamedTuple):
    """What a handle says: a message and the lease of one receive."""

    message_id: MessageId
    lease: int


def make_handle(message_id: MessageId, lease: int) -> str:
    data = lease.to_bytes(_LEASE_BYTES) + message_id.encode()
    return binascii.b2a_base64(_head(data) + data, newline=False).translate(_TO_URL).decode()


def read_handle(handle: str) -> LeasedMessage:
    """Read a handle. Raises SQSError for a text that is not a handle of a gateway."""
    try:
        text = handle.encode("ascii")
        whole = binascii.a2b_base64(text.translate(_FROM_URL))
        data = whole[_HEAD_BYTES:]
        message_id = data[_LEASE_BYTES:].decode("ascii")
    except ValueError:
        raise _invalid() from None
    lease = int.from_bytes(data[:_LEASE_BYTES])
    # What is decoded may have been written in several ways, of which one is a handle.
    if (
        lease == NO_LEASE
        or not is_message_id(message_id)
        or whole[:_HEAD_BYTES] != _head(data)
        or binascii.b2a_base64(whole, newline=False).translate(_TO_URL) != text
    ):
        raise _invalid()
    return LeasedMessage(MessageId(message_id), lease)


def _head(data: bytes) -> bytes:
    return _BEGIN + zlib.crc32(data).to_bytes(4)


def _invalid() -> SQSError:
    return SQSError(RECEIPT_HANDLE_IS_INVALID, "The input receipt handle is invalid.")
