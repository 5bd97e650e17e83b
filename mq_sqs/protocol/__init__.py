"""The two protocols of SQS: text in, checked values out; a result in, an answer out.

JSON 1.0 is what SDKs speak since November 2023. The older query protocol takes a form, or a query
string, and answers in XML. What an operation does belongs in `mq_sqs.operations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from multidict import CIMultiDictProxy

from mq.web.answers import Answer
from mq_sqs.faults import SQSError

Values = dict[str, Any]
"""Members by name: str, int, bool and bytes, lists and dicts of those."""


class SqsRequest(NamedTuple):
    """A request as it came, whole. `path` is without the query, still percent-encoded."""

    method: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]
    body: bytes


class Dialect(Protocol):
    """One of the protocols."""

    name: str

    def operation_of(self, asked: SqsRequest) -> str:
        """Return the name of the operation, unchecked. Raises SQSError if there is none."""

    def read(self, operation: str, asked: SqsRequest) -> Values:
        """Return the values of a request, each of the type that the model gives it. Raises
        SQSError."""

    def answer(self, operation: str, result: Mapping[str, Any], request_id: str) -> Answer: ...

    def refuse(self, error: SQSError, request_id: str) -> Answer: ...
