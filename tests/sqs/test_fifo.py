"""FIFO queues as boto3 sees them, in both protocols; and `mq` beside them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from mq.ctl.cli import mqctl
from tests.support.gateways import ask_both, ask_query, client_of, make_url, name_of, text_in
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, assert_problem

ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
ALL = {"MessageSystemAttributeNames": ["All"], "MaxNumberOfMessages": 10}


@pytest.fixture
def line(sqs: Any) -> str:
    """The URL of a new FIFO queue, where a body stands for its deduplication id."""
    return make_url(sqs, FifoQueue="true", ContentBasedDeduplication="true")


def send(sqs: Any, url: str, body: str, group: str = "a", **more: Any) -> Any:
    return sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, **more)


def bodies(sqs: Any, url: str, number: int = 10) -> list[str]:
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=number)
    return [each["Body"] for each in received.get("Messages", [])]


def code_of(call: Callable[..., Any], **values: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**values)
    return str(refused.value.response["Error"]["Code"])


def test_a_message_says_its_group_its_deduplication_id_and_its_number(sqs: Any, line: str) -> None:
    sent = send(sqs, line, "1", MessageDeduplicationId="id")
    [message] = sqs.receive_message(QueueUrl=line, **ALL)["Messages"]

    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["MessageGroupId"] == "a"
    assert message["Attributes"]["MessageDeduplicationId"] == "id"
    assert message["Attributes"]["SequenceNumber"] == sent["SequenceNumber"]
    [again] = [send(sqs, line, "2", MessageDeduplicationId="id")]
    assert (again["MessageId"], again["SequenceNumber"]) == (
        sent["MessageId"], sent["SequenceNumber"]
    )  # fmt: skip


def test_the_body_stands_for_its_deduplication_id(sqs: Any, line: str) -> None:
    first, again, other = send(sqs, line, "1"), send(sqs, line, "1"), send(sqs, line, "2")

    assert first["MessageId"] == again["MessageId"]
    assert first["SequenceNumber"] < other["SequenceNumber"]
    assert bodies(sqs, line) == ["1", "2"]


def test_a_batch_keeps_its_order_and_fails_in_part(sqs: Any, line: str) -> None:
    entries = [{"Id": str(at), "MessageBody": str(at), "MessageGroupId": "a"} for at in range(10)]
    entries[3]["MessageGroupId"] = "a b"
    entries[5]["DelaySeconds"] = 1  # type: ignore[assignment]

    told = sqs.send_message_batch(QueueUrl=line, Entries=entries)

    assert {each["Id"]: each["Code"] for each in told["Failed"]} == {
        "3": "InvalidParameterValue", "5": "InvalidParameterValue"
    }  # fmt: skip
    numbers = [each["SequenceNumber"] for each in told["Successful"]]
    assert numbers == sorted(numbers)
    assert bodies(sqs, line) == ["0", "1", "2", "4", "6", "7", "8", "9"]


def test_what_a_fifo_queue_does_not_take_is_refused(sqs: Any, line: str) -> None:
    explicit = make_url(sqs, FifoQueue="true")
    text = {"MessageBody": "1"}
    group = {**text, "MessageGroupId": "a"}

    assert code_of(sqs.send_message, QueueUrl=line, **text) == "MissingParameter"
    assert code_of(sqs.send_message, QueueUrl=explicit, **group) == "InvalidParameterValue"
    for wrong in ({"DelaySeconds": 1}, {"MessageGroupId": "a b"}, {"MessageDeduplicationId": "ä"}):
        found = code_of(sqs.send_message, QueueUrl=line, **{**group, **wrong})
        assert found == "InvalidParameterValue", wrong
    sqs.receive_message(QueueUrl=line, ReceiveRequestAttemptId="attempt-1")
    attempt = {"QueueUrl": line, "ReceiveRequestAttemptId": "a b"}
    assert code_of(sqs.receive_message, **attempt) == "InvalidParameterValue"
    sqs.send_message(QueueUrl=line, **group, DelaySeconds=0)


def test_an_attempt_to_receive_is_answered_the_same_again(sqs: Any, line: str) -> None:
    for body in ("1", "2", "x" * 600_000):
        send(sqs, line, body)
    asked = {"QueueUrl": line, "MaxNumberOfMessages": 10, "ReceiveRequestAttemptId": "a", **ALL}

    first = sqs.receive_message(**asked)["Messages"]

    assert len(first) == 3
    assert sqs.receive_message(**asked)["Messages"] == first
    assert "Messages" not in sqs.receive_message(**{**asked, "ReceiveRequestAttemptId": "b"})
    sqs.delete_message(QueueUrl=line, ReceiptHandle=first[0]["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(**asked)
    sqs.purge_queue(QueueUrl=line)


def test_a_standard_queue_takes_a_group_and_gives_it_back(sqs: Any, url: str) -> None:
    for body in "12":
        sent = send(sqs, url, body)
        assert "SequenceNumber" not in sent

    messages = sqs.receive_message(QueueUrl=url, **ALL)["Messages"]
    assert [each["Attributes"]["MessageGroupId"] for each in messages] == ["a", "a"]
    values = {"QueueUrl": url, "MessageBody": "1", "MessageDeduplicationId": "id"}
    assert code_of(sqs.send_message, **values) == "InvalidParameterValue"


def test_attributes_are_shown_and_the_type_stays(sqs: Any, line: str) -> None:
    def attributes() -> dict[str, str]:
        found = sqs.get_queue_attributes(QueueUrl=line, AttributeNames=["All"])
        return dict(found["Attributes"])

    assert attributes()["FifoQueue"] == attributes()["ContentBasedDeduplication"] == "true"
    assert attributes()["DeduplicationScope"] == "queue"
    high = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    sqs.set_queue_attributes(QueueUrl=line, Attributes=high)
    assert attributes() | high == attributes()
    wrong = {"QueueUrl": line, "Attributes": {"FifoQueue": "false"}}
    assert code_of(sqs.set_queue_attributes, **wrong) == "InvalidAttributeValue"
    wrong = {"QueueUrl": line, "Attributes": {"DeduplicationScope": "queue"}}
    assert code_of(sqs.set_queue_attributes, **wrong) == "InvalidAttributeValue"
    same = {"FifoQueue": "true", "ContentBasedDeduplication": "true", **high}
    assert sqs.create_queue(QueueName=name_of(line), Attributes=same)["QueueUrl"] == line
    other = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
    values = {"QueueName": name_of(line), "Attributes": other}
    assert code_of(sqs.create_queue, **values) == "QueueAlreadyExists"
    assert line in sqs.list_queues(QueueNamePrefix=name_of(line))["QueueUrls"]


def test_dead_letters_go_to_a_fifo_queue_alone(sqs: Any, line: str, url: str) -> None:
    dead = make_url(sqs, FifoQueue="true")

    def redrive(source: str, target: str) -> None:
        arn = f"arn:aws:sqs:us-east-1:000000000000:{name_of(target)}"
        policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}'
        sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": policy})

    assert code_of(redrive, source=line, target=url) == "InvalidParameterValue"
    assert code_of(redrive, source=url, target=line) == "InvalidParameterValue"
    redrive(line, dead)
    send(sqs, line, "1")
    send(sqs, line, "2")
    [first] = sqs.receive_message(QueueUrl=line)["Messages"]
    sqs.change_message_visibility(
        QueueUrl=line, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )

    assert bodies(sqs, line) == ["2"]
    [letter] = sqs.receive_message(QueueUrl=dead, **ALL)["Messages"]
    assert letter["Body"] == "1"
    assert letter["Attributes"]["MessageDeduplicationId"] == letter["MessageId"]


def test_a_move_task_brings_dead_letters_of_a_fifo_queue_back_in_order(sqs: Any, line: str) -> None:
    dead = make_url(sqs, FifoQueue="true")
    arn = "arn:aws:sqs:us-east-1:000000000000:"
    policy = f'{{"deadLetterTargetArn": "{arn}{name_of(dead)}", "maxReceiveCount": 1}}'
    sqs.set_queue_attributes(QueueUrl=line, Attributes={"RedrivePolicy": policy})
    for body in "12":
        send(sqs, line, body)
        [taken] = sqs.receive_message(QueueUrl=line)["Messages"]
        handle = taken["ReceiptHandle"]
        sqs.change_message_visibility(QueueUrl=line, ReceiptHandle=handle, VisibilityTimeout=0)
    other = arn + name_of(make_url(sqs))
    source = {"SourceArn": arn + name_of(dead)}
    wrong = code_of(sqs.start_message_move_task, **source, DestinationArn=other)

    sqs.start_message_move_task(**source)

    def is_over() -> bool:
        [task] = sqs.list_message_move_tasks(**source)["Results"]
        return (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 2)

    wait_until(is_over, 100)
    assert wrong == "InvalidParameterValue"
    assert bodies(sqs, line) == ["1", "2"]
    assert bodies(sqs, dead) == []


def test_a_visibility_of_zero_shows_a_message_again_at_once(sqs: Any, line: str) -> None:
    send(sqs, line, "1")
    send(sqs, line, "2")

    for _ in range(3):
        received = sqs.receive_message(QueueUrl=line, VisibilityTimeout=0)
        assert [each["Body"] for each in received["Messages"]] == ["1"]


def test_the_older_protocol_says_the_same(gateway: Server, line: str) -> None:
    values = {"QueueUrl": line, "MessageBody": "1", "MessageGroupId": "a"}
    by_json, by_query = ask_both(gateway, "SendMessage", values)

    assert by_json.status == by_query.status == 200
    assert by_json.json()["SequenceNumber"] == text_in(by_query, "SequenceNumber")
    assert by_json.json()["MessageId"] == text_in(by_query, "MessageId")
    by_json, by_query = ask_both(gateway, "SendMessage", {"QueueUrl": line, "MessageBody": "1"})
    assert by_json.code == by_query.code == "MissingParameter"
    got = ask_query(
        gateway, "ReceiveMessage", {"QueueUrl": line, "AttributeName.1": "MessageGroupId"}
    )
    assert (text_in(got, "Body"), text_in(got, "Value")) == ("1", "a")


def test_a_second_gateway_refuses_fifo_queues_in_a_way_that_clients_try_again(
    gateway: Server, sqs: Any, line: str, start_gateway: Callable[..., Server]
) -> None:
    send(sqs, line, "1")
    second = client_of(start_gateway(root=gateway.root))

    with pytest.raises(ClientError, match="another mq-sqs") as refused:
        send(second, line, "2")

    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert code_of(second.receive_message, QueueUrl=line) == "ServiceUnavailable"
    found = second.get_queue_attributes(QueueUrl=line, AttributeNames=["All"])["Attributes"]
    assert found["ApproximateNumberOfMessages"] == "1"


def test_over_http_one_counts_looks_and_deletes_and_nothing_else(
    gateway: Server, sqs: Any, line: str, start_server: Callable[..., Server]
) -> None:
    sent = send(sqs, line, "1")
    server = start_server(root=gateway.root)
    name, message_id = name_of(line), sent["MessageId"]
    with closing(Wire(server.port)) as http:
        counted = http.request("GET", f"/{name}")
        assert (counted.status, counted.json()["ready"]) == (200, 1)
        assert http.request("GET", f"/{name}/messages?peek").status == 200
        for method, path, body in (
            ("POST", f"/{name}/messages", b"2"),
            ("POST", f"/{name}/messages?delay=5", b"2"),
            ("GET", f"/{name}/messages", None),
            ("GET", f"/{name}/messages?max=5", None),
            ("GET", f"/{name}/messages?wait=5", None),
            ("GET", f"/{name}/messages?id={message_id}", None),
            ("GET", f"/{name}/messages?id={message_id}&visibility=0", None),
            ("POST", f"/other/messages?from={name}", None),
            ("POST", f"/{name}/messages?from=other", None),
            ("POST", f"/{name}/messages?from=other&id=own", None),
        ):
            http.request("PUT", "/other")
            assert_problem(http.request(method, path, body), 409, "fifo-queue", "mq-sqs")
        own = http.request("POST", f"/{name}/messages", b"2", x_message_id="own")
        assert_problem(own, 409, "fifo-queue")
        lines = {"content_type": "application/x-ndjson"}
        many = http.request("POST", f"/{name}/messages?batch", b'{"body": "2"}\n', **lines)
        assert_problem(many, 409, "fifo-queue")
        assert http.request("DELETE", f"/{name}/messages/{message_id}").status == 202
        assert bodies(sqs, line) == []
        send(sqs, line, "2")
        assert http.request("DELETE", f"/{name}").status == 200
        assert code_of(sqs.receive_message, QueueUrl=line).endswith("NonExistentQueue")


def test_by_root_nothing_comes_between_the_messages_of_a_group_either(
    gateway: Server, sqs: Any
) -> None:
    line = make_url(
        sqs, FifoQueue="true", ContentBasedDeduplication="true", VisibilityTimeout="600"
    )
    first, second, _ = (send(sqs, line, body)["MessageId"] for body in "123")
    assert bodies(sqs, line, 1) == ["1"]
    name, other = name_of(line), name_of(make_url(sqs))
    sqs.send_message(QueueUrl=f"/0/{other}", MessageBody="x")

    def ctl(*words: str) -> Result:
        """Run mqctl in this process: nine others would take longer than all else here."""
        return CliRunner().invoke(mqctl, [f"--root={gateway.root}", *words], '{"body": "4"}\n')

    for words in (
        ("send", name, "4"), ("import", name, "-"), ("recv", name), ("release", name, first),
        ("touch", name, first, "--visibility=1"), ("move", name, other), ("move", other, name),
    ):  # fmt: skip
        assert "through mq-sqs" in str(ctl(*words).exception), words
    assert ctl("ack", name, second).exit_code == 0
    assert ctl("fsck", "--repair").exit_code == 0

    assert bodies(sqs, line) == []
    assert ctl("ack", name, first).exit_code == 0
    [message] = sqs.receive_message(QueueUrl=line, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "3"
