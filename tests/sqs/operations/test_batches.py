"""What the batches have in common."""

from __future__ import annotations

from typing import Any

import pytest

from mq_sqs.faults import BATCH_ENTRY_IDS_NOT_DISTINCT, SQSError
from mq_sqs.operations.batches import check_entries
from tests.support.gateways import make_url


def test_of_ids_that_are_repeated_the_one_whose_repetition_comes_first_is_named() -> None:
    entries = [{"Id": each} for each in ("a", "b", "b", "a")]

    with pytest.raises(SQSError, match="Id b repeated") as refused:
        check_entries(entries, "SendMessageBatch")
    assert refused.value.fault is BATCH_ENTRY_IDS_NOT_DISTINCT


def test_an_entry_that_is_too_long_is_refused_in_the_words_for_an_entry(sqs: Any) -> None:
    """They are not those for a single message."""
    url = make_url(sqs, MaximumMessageSize="1024")
    entries = [{"Id": "a", "MessageBody": "a" * 1025}, {"Id": "b", "MessageBody": "b"}]

    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert [each["Id"] for each in sent["Successful"]] == ["b"]
    assert sent["Failed"] == [
        {
            "Id": "a",
            "SenderFault": True,
            "Code": "InvalidParameterValue",
            "Message": "One or more parameters cannot be validated. Reason: Message must be "
            "shorter than 1024 bytes.",
        }
    ]
