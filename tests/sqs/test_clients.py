"""Programs that people have: the resource of boto3, awscli, and an SDK of 2023."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.gateways import CREDENTIALS, make_url, name_of
from tests.support.processes import Server
from tests.support.sources import REPOSITORY

OLD_BOTOCORE = "botocore==1.31.20"
"""Of July 2023, the last summer in which SDKs spoke the query protocol."""


def test_the_resource_of_boto3_works_by_an_address_from_the_environment(
    gateway: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_SQS": gateway.url}.items():
        monkeypatch.setenv(name, value)
    sqs: Any = boto3.resource("sqs")
    queue = sqs.create_queue(QueueName="by-resource", Attributes={"DelaySeconds": "0"})

    queue.send_messages(Entries=[{"Id": str(at), "MessageBody": f"m{at}"} for at in range(3)])
    messages = queue.receive_messages(MaxNumberOfMessages=10)
    messages[0].change_visibility(VisibilityTimeout=60)
    for message in messages:
        message.delete()

    assert [message.body for message in messages] == ["m0", "m1", "m2"]
    assert sqs.get_queue_by_name(QueueName="by-resource").attributes["DelaySeconds"] == "0"
    assert queue.url in [each.url for each in sqs.queues.filter(QueueNamePrefix="by-res")]
    queue.delete()


def commands_in(document: str, heading: str) -> list[str]:
    """Those of awscli in the first block below a heading."""
    text = (REPOSITORY / document).read_text().split(f"{heading}\n", 1)[1]
    block = text.split("```sh\n", 1)[1].split("```", 1)[0].replace("\\\n", " ")
    return [line for line in block.splitlines() if line.startswith("sqs ")]


def test_the_minute_with_awscli_in_the_document_is_as_it_says(gateway: Server) -> None:
    outputs = []
    handle = ""
    for command in commands_in("docs/sqs.md", "## A minute with awscli"):
        words = [handle if word == "HANDLE" else word for word in shlex.split(command)]
        done = subprocess.run(
            [sys.executable, "-m", "awscli", "sqs", f"--endpoint-url={gateway.url}", *words[1:]],
            env=os.environ | CREDENTIALS, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
        outputs.append(done.stdout)
        found = re.search(r'"ReceiptHandle": "([^"]+)"', done.stdout)
        handle = found[1] if found else handle

    assert json.loads(outputs[0])["QueueUrl"] == f"{gateway.url}/000000000000/orders"
    assert json.loads(outputs[2])["Messages"][0]["Body"] == "two coffees"
    assert outputs[3] == ""


OLD_CLIENT = """
import sys
import botocore, botocore.session

assert botocore.__version__ == sys.argv[2], botocore.__file__
sqs = botocore.session.get_session().create_client("sqs", endpoint_url=sys.argv[1])
assert sqs.meta.service_model.metadata["protocol"] == "query"
url = sqs.create_queue(QueueName="by-query", Attributes={"VisibilityTimeout": "60"},
                       tags={"team": "a & b"})["QueueUrl"]
assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a & b"}
text = "<\\u00e4 & \\r\\n\\t>"
sent = sqs.send_message(QueueUrl=url, MessageBody=text)
batch = sqs.send_message_batch(QueueUrl=url, Entries=[
    {"Id": "a", "MessageBody": "b"}, {"Id": "late", "MessageBody": "c", "DelaySeconds": 901}])
assert [each["Id"] for each in batch["Successful"]] == ["a"]
assert batch["Failed"][0]["SenderFault"] is True
got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]
assert [each["Body"] for each in got] == [text, "b"], got
assert got[0]["MessageId"] == sent["MessageId"]
assert got[0]["Attributes"]["ApproximateReceiveCount"] == "1"
sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=got[1]["ReceiptHandle"],
                              VisibilityTimeout=5)
done = sqs.delete_message_batch(QueueUrl=url, Entries=[
    {"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate(got)])
assert len(done["Successful"]) == 2 and "Failed" not in done
found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
assert found["VisibilityTimeout"] == "60" and found["ApproximateNumberOfMessages"] == "0"
assert url in sqs.list_queues(QueueNamePrefix="by-")["QueueUrls"]
for call, error in (
    (lambda: sqs.get_queue_url(QueueName="no"), sqs.exceptions.QueueDoesNotExist),
    (lambda: sqs.create_queue(QueueName="by-query", Attributes={"VisibilityTimeout": "1"}),
     sqs.exceptions.QueueNameExists),
    (lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle="x"),
     sqs.exceptions.ReceiptHandleIsInvalid),
):
    try:
        call()
    except error:
        continue
    raise AssertionError(error)
sqs.delete_queue(QueueUrl=url)
print("done")
"""


@pytest.fixture(scope="module")
def old_botocore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a botocore of its own, and what that needs."""
    folder = tmp_path_factory.mktemp("botocore")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    done = subprocess.run(
        [*install, OLD_BOTOCORE], capture_output=True, text=True, timeout=240, check=False
    )
    if done.returncode:
        pytest.skip(f"{OLD_BOTOCORE} cannot be installed: {done.stderr.strip()[-200:]}")
    return folder


def test_an_sdk_that_speaks_the_query_protocol_works(gateway: Server, old_botocore: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OLD_CLIENT, gateway.url, OLD_BOTOCORE.partition("==")[2]],
        env=os.environ | CREDENTIALS | {"PYTHONPATH": str(old_botocore)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.stdout.strip() == "done", done.stderr


def test_a_queue_is_the_same_whatever_client_made_it(gateway: Server, sqs: Any) -> None:
    url = make_url(sqs)

    assert (gateway.root / "queues" / name_of(url)).is_dir()
