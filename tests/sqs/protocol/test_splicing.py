"""The JSON of what is answered: attributes that write their own are where others would be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mq_sqs.message_attributes import choice_of
from mq_sqs.properties import ATTRIBUTES
from mq_sqs.protocol.splicing import encode
from mq_sqs.text_attributes import text_attributes_of

NOTE = {"DataType": "String", "StringValue": "x"}


@pytest.mark.parametrize("body", ["a", r"\u0000", r'"\u0000"', r"\"\u0000\"", '", "b": 1', "ä\n"])
def test_each_message_has_its_own_attributes(body: str) -> None:
    def attributes(name: str) -> Any:
        kept = f'{{"{name}":["String","x"]}}'
        return text_attributes_of({ATTRIBUTES: kept}, choice_of(["All"]))

    binary = {"c": {"DataType": "Binary", "BinaryValue": b"\0"}}
    messages = [
        {"Body": body, "MessageAttributes": attributes("a"), "MessageId": "1"},
        {"Body": body},
        {"Body": body, "MessageAttributes": binary},
        {"MessageAttributes": attributes("b"), "Body": body},
    ]

    found = json.loads(encode({"Messages": messages}))["Messages"]

    assert [each["Body"] for each in found] == [body] * 4
    assert found[0]["MessageAttributes"] == {"a": NOTE}
    assert "MessageAttributes" not in found[1]
    assert found[2]["MessageAttributes"]["c"]["BinaryValue"] == "AA=="
    assert found[3]["MessageAttributes"] == {"b": NOTE}


def test_another_result_is_json() -> None:
    assert json.loads(encode({"Tags": {"a": "\0ä"}})) == {"Tags": {"a": "\0ä"}}
