"""Tags of a queue as notes, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.names import QueueName
from mq.spool.queue.queue_settings import NO_SETTINGS, change, parse_settings
from mq_sqs.faults import SQSError
from mq_sqs.messages.message_attributes import is_text
from mq_sqs.queues.tags import tag_changes, tags_of, untag_changes
from tests.support.gateways import ask_query, flatten, name_of
from tests.support.processes import Server

ORDERS = QueueName("orders")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(is_text)


@given(st.dictionaries(TEXT.filter(lambda key: key and not key.lower().startswith("aws:")), TEXT))
def test_tags_survive_in_the_file(tags: dict[str, str]) -> None:
    settings = change(ORDERS, NO_SETTINGS, tag_changes(tags))

    assert tags_of(parse_settings(ORDERS, settings.text())) == tags
    assert not tags or change(ORDERS, settings, untag_changes(tags)) == NO_SETTINGS


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("", "x", "^Tag keys must be between 1 and 128 characters in length.$"),
        ("k" * 129, "x", "^Tag keys must be between 1 and 128 characters in length.$"),
        ("k", "v" * 257, "256"),
        ("aws:k", "v", "Amazon's"),
        ("k\0", "v", "control character"),
        ("k", "\ufffe", "control character"),
    ],
)
def test_a_tag_that_sqs_does_not_take_is_refused(key: str, value: str, why: str) -> None:
    with pytest.raises(SQSError, match=why):
        tag_changes({key: value})


@pytest.mark.parametrize("keys", [[], [""], ["a", "k" * 129], [str(at) for at in range(51)]])
def test_a_key_that_no_tag_has_cannot_be_taken_away(keys: list[str]) -> None:
    with pytest.raises(SQSError, match=r"128|50"):
        untag_changes(keys)


def test_a_tag_can_be_read_with_cat() -> None:
    assert change(ORDERS, NO_SETTINGS, tag_changes({"team": "payments/EU"})).text() == (
        "sqs.tag.team=payments/EU\n"
    )


def test_fifty_tags_may_fill_a_form(gateway: Server, sqs: Any, url: str) -> None:
    """In an alphabet whose letters take three bytes, which a form writes in nine characters."""
    tags = {f"{at:02}{chr(0x30A2) * 126}": chr(0x30AB) * 256 for at in range(50)}
    made = {"QueueName": f"{name_of(url)}-2", "tags": tags}

    told = [
        ask_query(gateway, operation, flatten(operation, values)).status
        for operation, values in (("TagQueue", {"QueueUrl": url, "Tags": tags}),
                                  ("CreateQueue", made))
    ]  # fmt: skip

    assert told == [200, 200]
    for each in (url, f"{url}-2"):
        assert sqs.list_queue_tags(QueueUrl=each)["Tags"] == tags
