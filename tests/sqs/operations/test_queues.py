"""Queues, their attributes and their tags, by boto3."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.gateways import ACCOUNT, client_of, make_url, name_of
from tests.support.processes import Server
from tests.support.wire import Wire


def new_name(prefix: str = "q") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def arn_of(url: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name_of(url)}"


def attributes_of(sqs: Any, url: str, *names: str) -> dict[str, str]:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names or ["All"]))
    return dict(found.get("Attributes", {}))


def test_a_queue_that_is_made_is_found_and_listed(gateway: Server, sqs: Any) -> None:
    name = new_name()

    url = sqs.create_queue(QueueName=name)["QueueUrl"]

    assert url == f"{gateway.url}/{ACCOUNT}/{name}"
    assert sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId="1" * 12)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    assert (gateway.root / "queues" / name / ".settings").exists()


def test_making_a_queue_again_gives_the_same_one_unless_attributes_differ(sqs: Any) -> None:
    name = new_name()
    first = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5"})

    assert sqs.create_queue(QueueName=name)["QueueUrl"] == first["QueueUrl"]
    sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5", "VisibilityTimeout": "30"})
    with pytest.raises(sqs.exceptions.QueueNameExists, match="DelaySeconds"):
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "6"})


def test_of_those_who_make_a_queue_together_with_other_attributes_one_does(
    gateway: Server,
) -> None:
    sqs, name = client_of(gateway, config=Config(max_pool_connections=20)), new_name()

    def make(delay: int) -> str:
        try:
            sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": str(delay)})
        except sqs.exceptions.QueueNameExists:
            return "exists"
        return str(delay)

    with ThreadPoolExecutor(20) as threads:
        told = list(threads.map(make, range(20)))

    [made] = [each for each in told if each != "exists"]
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    assert attributes_of(sqs, url, "DelaySeconds") == {"DelaySeconds": made}


def test_a_queue_of_the_root_is_taken_over_and_keeps_its_settings(
    gateway: Server, sqs: Any
) -> None:
    name = new_name()
    folder = gateway.root / "queues" / name
    folder.mkdir()
    (folder / ".settings").write_text("delay=5\n")

    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "7"})["QueueUrl"]

    found = attributes_of(sqs, url)
    assert (found["DelaySeconds"], found["VisibilityTimeout"]) == ("5", "7")
    assert "ttl" not in (folder / ".settings").read_text()


def test_a_new_queue_keeps_messages_for_four_days(sqs: Any, url: str) -> None:
    assert attributes_of(sqs, url)["MessageRetentionPeriod"] == "345600"


def test_queues_are_listed_in_pages(sqs: Any) -> None:
    prefix = new_name("page")
    urls = [sqs.create_queue(QueueName=f"{prefix}-{at}")["QueueUrl"] for at in range(5)]

    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
    )

    assert [page["QueueUrls"] for page in pages] == [urls[:2], urls[2:4], urls[4:]]
    assert "NextToken" not in sqs.list_queues(QueueNamePrefix=prefix)
    with pytest.raises(ClientError, match="NextToken"):
        sqs.list_queues(QueueNamePrefix=prefix, NextToken="ä!", MaxResults=2)


def test_a_deleted_queue_is_gone_with_its_messages(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="a")

    sqs.delete_queue(QueueUrl=url)

    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.send_message(QueueUrl=url, MessageBody="a")
    sqs.create_queue(QueueName=name_of(url))
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_fifo_queue_made_again_at_once_takes_what_died_in_the_one_before(sqs: Any) -> None:
    """Most often it is made again within the second."""
    message = {"MessageBody": "1", "MessageGroupId": "a", "MessageDeduplicationId": "id"}
    dead = arn_of(make_url(sqs, FifoQueue="true"))
    policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 1})
    for _ in range(3):
        line = make_url(sqs, FifoQueue="true", RedrivePolicy=policy)
        first = sqs.send_message(QueueUrl=line, **message)
        sqs.receive_message(QueueUrl=line, VisibilityTimeout=0)
        sqs.delete_queue(QueueUrl=line)
        sqs.create_queue(QueueName=name_of(line), Attributes={"FifoQueue": "true"})

        second = sqs.send_message(QueueUrl=line, **message)

        assert second["MessageId"] != first["MessageId"]
        [received] = sqs.receive_message(QueueUrl=line)["Messages"]
        assert received["MessageId"] == second["MessageId"]


def test_a_purged_queue_is_empty_and_keeps_its_attributes(sqs: Any) -> None:
    url = make_url(sqs, DelaySeconds="0", VisibilityTimeout="60")
    for delay in (0, 0, 900):
        sqs.send_message(QueueUrl=url, MessageBody="a", DelaySeconds=delay)
    sqs.receive_message(QueueUrl=url)

    for _ in range(2):
        sqs.purge_queue(QueueUrl=url)

    found = attributes_of(sqs, url)
    assert {found[name] for name in found if name.startswith("ApproximateNumber")} == {"0"}
    assert found["VisibilityTimeout"] == "60"


def test_attributes_are_changed_and_the_others_stay(sqs: Any) -> None:
    url = make_url(sqs, VisibilityTimeout="60", DelaySeconds="1")
    before = attributes_of(sqs, url)

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "2"})

    after = attributes_of(sqs, url)
    assert int(after.pop("LastModifiedTimestamp")) >= int(before.pop("LastModifiedTimestamp"))
    assert after == before | {"DelaySeconds": "2"}
    assert attributes_of(sqs, url, "QueueArn", "Policy") == {"QueueArn": arn_of(url)}
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)


def test_the_counts_are_those_of_each_state(sqs: Any, url: str) -> None:
    for delay in (0, 0, 0, 900):
        sqs.send_message(QueueUrl=url, MessageBody="a", DelaySeconds=delay)
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=2)

    found = attributes_of(sqs, url)

    counts = {name: value for name, value in found.items() if name.startswith("Approximate")}
    assert counts == {
        "ApproximateNumberOfMessages": "1",
        "ApproximateNumberOfMessagesNotVisible": "2",
        "ApproximateNumberOfMessagesDelayed": "1",
    }


def test_dead_letters_need_a_queue_that_takes_them(sqs: Any, url: str) -> None:
    dead = make_url(sqs, RedriveAllowPolicy='{"redrivePermission": "denyAll"}')

    def policy(target: str) -> dict[str, str]:
        return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 2})}

    for target, why in (
        (arn_of(dead), "does not allow"),
        (arn_of(url), "its own"),
        (arn_of(url) + "-not-there", "does not exist"),
    ):
        with pytest.raises(ClientError, match=why):
            sqs.set_queue_attributes(QueueUrl=url, Attributes=policy(target))
    sqs.set_queue_attributes(
        QueueUrl=dead,
        Attributes={
            "RedriveAllowPolicy": json.dumps(
                {"redrivePermission": "byQueue", "sourceQueueArns": [arn_of(url)]}
            )
        },
    )
    sqs.set_queue_attributes(QueueUrl=url, Attributes=policy(arn_of(dead)))
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]


def test_tags_are_set_listed_and_taken_away(sqs: Any) -> None:
    name = new_name()
    url = sqs.create_queue(QueueName=name, tags={"team": "a b", "Größe": ""})["QueueUrl"]

    sqs.tag_queue(QueueUrl=url, Tags={"team": "c", "x=y": "\u2028%20"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {
        "team": "c", "Größe": "", "x=y": "\u2028%20",
    }  # fmt: skip
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "Größe", "x=y", "never"])

    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


def test_a_queue_has_up_to_50_tags(sqs: Any, url: str) -> None:
    sqs.tag_queue(QueueUrl=url, Tags={f"key{at}": "v" for at in range(50)})

    with pytest.raises(ClientError, match="50"):
        sqs.tag_queue(QueueUrl=url, Tags={"one-more": "v"})


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("orders.fifo", {}),
        ("orders.fifo", {"FifoQueue": "false"}),
        ("orders", {"FifoQueue": "true"}),
    ],
)
def test_name_and_attribute_say_alike_that_a_queue_is_fifo(
    sqs: Any, name: str, attributes: dict[str, str]
) -> None:
    with pytest.raises(ClientError, match="fifo") as refused:
        sqs.create_queue(QueueName=name, Attributes=attributes)

    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_mq_shows_and_keeps_what_the_gateway_notes(
    gateway: Server, sqs: Any, start_server: Callable[..., Server]
) -> None:
    name = new_name()
    sqs.create_queue(QueueName=name, Attributes={"ReceiveMessageWaitTimeSeconds": "3"},
                     tags={"team": "a"})  # fmt: skip
    wire = Wire(start_server(root=gateway.root).port)

    changed = wire.request("PUT", f"/{name}?delay=4")
    shown = wire.request("GET", f"/{name}").json()["settings"]
    wire.close()

    assert changed.status == 200
    assert shown["sqs.tag.team"] == "a"
    found = attributes_of(client_of(gateway), f"x/{name}")
    assert (found["ReceiveMessageWaitTimeSeconds"], found["DelaySeconds"]) == ("3", "4")


@pytest.mark.parametrize(
    ("name", "attributes", "more"),
    [
        ("n" * 80, {}, {}),
        ("n" * 75 + ".fifo", {"FifoQueue": "true"},
         {"MessageGroupId": "g", "MessageDeduplicationId": "1"}),
    ],
    ids=["standard", "FIFO"],
)  # fmt: skip
def test_the_longest_names_that_amazon_has_work(
    sqs: Any, name: str, attributes: dict[str, str], more: dict[str, str]
) -> None:
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    sqs.send_message(QueueUrl=url, MessageBody="a", **more)
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.purge_queue(QueueUrl=url)

    assert message["Body"] == "a"
    assert url in sqs.list_queues(QueueNamePrefix="n" * 70)["QueueUrls"]
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="n" * 70)
