"""Receipt handles."""

from __future__ import annotations

import base64

import pytest

from mq.names import MessageId, QueueName
from mq_sqs.faults import RECEIPT_HANDLE_IS_INVALID, SQSError
from mq_sqs.messages.handles import LeasedMessage, make_handle, read_handle

ORDERS = QueueName("orders")
ID = MessageId("01a1fcfc-2d8b-7793-aa0c-b8e761dfed12")
_TO_URL = str.maketrans("+/", "-_")


@pytest.mark.parametrize("lease", [1, 0x1234, 2**64 - 1])
@pytest.mark.parametrize("message_id", [ID, "a", "x" * 64])
def test_a_handle_says_what_it_was_made_of(message_id: str, lease: int) -> None:
    handle = make_handle(ORDERS, MessageId(message_id), lease)

    assert read_handle(ORDERS, handle) == LeasedMessage(MessageId(message_id), lease)
    assert handle.isascii()


def changed(handle: str, at: int) -> str:
    data = bytearray(base64.b64decode(handle))
    data[at] ^= 1
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "handle",
    ["", "x", "!!!!", "ä", "AQEBzbVv", "A" * 5000, make_handle(ORDERS, ID, 1) + "=",
     make_handle(QueueName("lunch"), ID, 1), make_handle(ORDERS, ID, 0),
     make_handle(ORDERS, MessageId("../a"), 1),
     *(changed(make_handle(ORDERS, ID, 7), at) for at in (0, 5, 20))],
)  # fmt: skip
def test_anything_else_is_refused(handle: str) -> None:
    with pytest.raises(SQSError) as refused:
        read_handle(ORDERS, handle)

    assert refused.value.fault is RECEIPT_HANDLE_IS_INVALID


def test_no_handle_looks_like_a_flag() -> None:
    begins = {make_handle(ORDERS, MessageId("a"), lease)[0] for lease in range(1, 500)}

    assert begins == {"A"}


def test_no_handle_has_a_dash() -> None:
    """Amazon's extended client for Python puts the place of a body in S3 before a handle, and takes
    what follows the last dash for the handle itself."""
    handles = [make_handle(ORDERS, ID, lease << 40) for lease in range(1, 500)]

    assert not any("-" in handle for handle in handles)
    assert all(base64.b64decode(handle, validate=True) for handle in handles)


def test_a_handle_that_an_older_gateway_gave_is_good() -> None:
    """The gateway was replaced while a client worked on the message."""
    leases = range(1 << 40, 200 << 40, 1 << 40)
    older = [make_handle(ORDERS, ID, each).translate(_TO_URL) for each in leases]

    assert {*"-_"} <= {*"".join(older)}
    assert [read_handle(ORDERS, each).lease for each in older] == [*leases]
