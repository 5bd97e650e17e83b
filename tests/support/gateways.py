"""A gateway for SQS, and requests to it: by boto3, and by hand in both protocols."""

from __future__ import annotations

import http.client
import json
import re
import uuid
from contextlib import AsyncExitStack
from typing import Any, NamedTuple
from urllib.parse import urlencode
from xml.etree import ElementTree

import boto3
from aiohttp.test_utils import make_mocked_request
from botocore.config import Config

from mq.names import MessageId, QueueName
from mq_sqs.calls import Operations, Result, SqsCall
from mq_sqs.messages.handles import make_handle
from mq_sqs.operations import HANDLERS
from tests.support.processes import Server

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
ACCOUNT = "000000000000"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "key",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_PAGER": "",
}
"""The environment of a program for Amazon, with nothing of this machine."""


def client_of(server: Server, **settings: Any) -> Any:
    """Return a client of boto3 that never tries again."""
    defaults = {
        "endpoint_url": server.url,
        "region_name": "us-east-1",
        "aws_access_key_id": "any",
        "aws_secret_access_key": "key",
        "config": Config(retries={"total_max_attempts": 1}, read_timeout=60),
    }
    return boto3.client("sqs", **{**defaults, **settings})


def make_url(client: Any, **attributes: str) -> str:
    """Make a queue, and return its URL. It is a FIFO queue if the attributes say so."""
    name = f"q-{uuid.uuid4().hex[:12]}" + (".fifo" if "FifoQueue" in attributes else "")
    made = client.create_queue(QueueName=name, Attributes=attributes)
    return str(made["QueueUrl"])


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def nobodys_handle(url: str) -> str:
    """Return a handle of that queue, for a message that it never had."""
    return make_handle(
        QueueName(name_of(url)), MessageId("01a1fcfc-2d8b-7793-aa0c-b8e761dfed12"), 7
    )


class Told(NamedTuple):
    """What a gateway answered, whatever the protocol. `code` and `message` are those of an error;
    `name` is how the model calls it, which XML does not say."""

    status: int
    code: str
    message: str
    name: str
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def send(
    server: Server,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes | None = None,
) -> Told:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        return _told(answer, answer.read())
    finally:
        connection.close()


def _told(answer: http.client.HTTPResponse, body: bytes) -> Told:
    code = message = name = ""
    if answer.status >= 400 and "json" in answer.headers.get("Content-Type", ""):
        document = json.loads(body)
        code = answer.headers.get("x-amzn-query-error", "").partition(";")[0]
        message, name = document["message"], document["__type"].rpartition("#")[2]
    elif answer.status >= 400 and body:
        error = ElementTree.fromstring(body).find(f"{NAMESPACE}Error")
        assert error is not None
        code = error.findtext(f"{NAMESPACE}Code") or ""
        message = error.findtext(f"{NAMESPACE}Message") or ""
    return Told(answer.status, code, message, name, answer.headers, body)


def ask_json(server: Server, operation: str, values: object) -> Told:
    """Send a request in JSON. `values` may be bytes, which are sent as they are."""
    body = values if isinstance(values, bytes) else json.dumps(values).encode()
    headers = {
        "X-Amz-Target": f"AmazonSQS.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
    }
    return send(server, "POST", "/", headers, body)


def ask_query(server: Server, operation: str, fields: dict[str, str], path: str = "/") -> Told:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"Action": operation, "Version": "2012-11-05", **fields}).encode()
    return send(server, "POST", path, headers, body)


_FLAT = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "tags": ("Tag", "Key"),
    "Tags": ("Tag", "Key"),
    "AttributeNames": ("AttributeName", ""),
    "MessageSystemAttributeNames": ("MessageSystemAttributeName", ""),
    "MessageAttributeNames": ("MessageAttributeName", ""),
    "StringListValues": ("StringListValue", ""),
    "BinaryListValues": ("BinaryListValue", ""),
    "TagKeys": ("TagKey", ""),
    "AWSAccountIds": ("AWSAccountId", ""),
    "Actions": ("ActionName", ""),
}


def flatten(operation: str, values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return values of JSON as fields of the query protocol."""
    fields: dict[str, str] = {}
    for name, value in values.items():
        flat, key = _FLAT.get(name, (f"{operation}RequestEntry", ""))
        if isinstance(value, list):
            for number, each in enumerate(value, start=1):
                at = f"{prefix}{flat}.{number}"
                if isinstance(each, dict):
                    fields |= flatten(operation, each, f"{at}.")
                else:
                    fields[at] = str(each)
        elif isinstance(value, dict):
            for number, (member, each) in enumerate(value.items(), start=1):
                at = f"{prefix}{flat}.{number}"
                fields[f"{at}.{key}"] = member
                if isinstance(each, dict):
                    fields |= flatten(operation, each, f"{at}.Value.")
                else:
                    fields[f"{at}.Value"] = str(each)
        else:
            fields[prefix + name] = str(value)
    return fields


def ask_both(server: Server, operation: str, values: dict[str, Any]) -> list[Told]:
    """Send the same request in each protocol."""
    return [
        ask_json(server, operation, values),
        ask_query(server, operation, flatten(operation, values)),
    ]


def text_in(told: Told, element: str) -> str | None:
    """Return the text of the first element of that name in an XML answer, or None."""
    found = ElementTree.fromstring(told.body).find(f".//{NAMESPACE}{element}")
    return None if found is None else found.text


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


async def run(operations: Operations, operation: str, **values: Any) -> Result:
    """Do what an operation does for a client that stays, without HTTP."""
    handler = HANDLERS[operation]
    async with AsyncExitStack() as exits:
        request = make_mocked_request("POST", "/")
        call = SqsCall(values, request, "http://localhost", None, exits)
        return await handler.run(operations, call, handler.queue_of(values))
