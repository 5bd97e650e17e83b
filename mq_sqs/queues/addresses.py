"""The addresses of a queue in SQS: its name, its URL, its ARN. Any region and account will do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from mq.errors import InvalidName
from mq.names import QueueName, parse_queue_name
from mq_sqs.faults import (
    INVALID_PARAMETER_VALUE,
    QUEUE_DOES_NOT_EXIST,
    SQSError,
)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|(?=.{6,80}$)[A-Za-z0-9_-]+\.fifo")
_ARN = re.compile(r"arn:[a-z-]+:sqs:[a-z0-9-]*:[0-9]*:([^:]+)")

_LONGEST_KNOWN = 256


@dataclass(frozen=True, slots=True)
class Addressing:
    """What the addresses of queues contain besides names. `url` is the beginning of queue URLs; if
    it is empty, they begin with the address that the client calls."""

    region: str = "us-east-1"
    account: str = "000000000000"
    url: str = ""

    def url_of(self, queue: QueueName, base: str) -> str:
        return f"{self.url or base}/{self.account}/{queue}"

    def arn_of(self, queue: QueueName) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{queue}"


def queue_to_make(name: str) -> QueueName:
    """Return the name of a queue to be made. Raises SQSError."""
    if not _NAME.fullmatch(name):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    try:
        return parse_queue_name(name)
    except InvalidName as error:
        raise SQSError(
            INVALID_PARAMETER_VALUE, f"MQ cannot keep a queue of that name: {error}"
        ) from None


def queue_of_name(name: str) -> QueueName:
    """Return the name of a queue that may exist. Raises SQSError if no queue can have that name."""
    try:
        return parse_queue_name(name)
    except InvalidName:
        raise SQSError(QUEUE_DOES_NOT_EXIST, "The specified queue does not exist.") from None


def queue_of_url(url: str) -> QueueName:
    """Return the queue in a URL. Only the last segment counts, whatever the host and the account.
    Raises SQSError."""
    return _queue_of_known(url) if len(url) <= _LONGEST_KNOWN else _queue_of(url)


def _queue_of(url: str) -> QueueName:
    path = url.partition("?")[0]
    if "://" in path:
        path = path.partition("://")[2].partition("/")[2]
    return queue_of_name(unquote(path.rstrip("/").rpartition("/")[2]))


_queue_of_known = lru_cache(1024)(_queue_of)


def queue_of_arn(arn: str) -> QueueName | None:
    """Return the queue in an ARN, or None if it is not the ARN of a queue."""
    match = _ARN.fullmatch(arn)
    if match is None:
        return None
    try:
        return parse_queue_name(match[1])
    except InvalidName:
        return None
