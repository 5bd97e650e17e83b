"""What the batches have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mq_sqs.faults import BATCH_ENTRY_IDS_NOT_DISTINCT, SQSError
from mq_sqs.operations.batches import check_entries
from tests.support.gateways import ask_both, make_url, text_in
from tests.support.processes import Server


def test_of_ids_that_are_repeated_the_one_whose_repetition_comes_first_is_named() -> None:
    entries = [{"Id": each} for each in ("a", "b", "b", "a")]

    with pytest.raises(SQSError, match="Id b repeated") as refused:
        check_entries(entries, "SendMessageBatch")
    assert refused.value.fault is BATCH_ENTRY_IDS_NOT_DISTINCT


def test_an_entry_without_a_body_fails_by_itself(gateway: Server, url: str) -> None:
    """Amazon calls that otherwise than for a single message."""
    bodies = ("a", "", "b")
    entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies)]
    values = {"QueueUrl": url, "Entries": entries}

    by_json, by_query = ask_both(gateway, "SendMessageBatch", values)

    sent = json.loads(by_json.body)
    assert [each["Id"] for each in sent["Successful"]] == ["0", "2"]
    assert sent["Failed"] == [
        {
            "Id": "1",
            "SenderFault": True,
            "Code": "EmptyValue",
            "Message": "No Value Found for SendMessageBatchRequestEntry.2.MessageBody.",
        }
    ]
    assert text_in(by_query, "Code") == "EmptyValue"


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
