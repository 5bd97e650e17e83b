"""AWS JSON 1.0: the operation in the header `X-Amz-Target`, its values as a JSON object.

The body names an error; the header `x-amzn-query-error` has its name in the query protocol.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from multidict import CIMultiDictProxy

from mq.web.answers import Answer, lines_of
from mq_sqs.faults import (
    INVALID_ACTION,
    INVALID_PARAMETER_VALUE,
    SERIALIZATION,
    SQSError,
    missing,
)
from mq_sqs.model import (
    MESSAGE_ATTRIBUTES,
    OPERATIONS,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Structure,
    complete,
)
from mq_sqs.protocol import SqsRequest, Values

TARGET = "AmazonSQS."
"""What the header `X-Amz-Target` begins with; the operation follows."""
_TYPE = "application/x-amz-json-1.0"
_FORM = "application/x-www-form-urlencoded"

_SPACE = b" \t\r\n"
_MAX_VALUES = 2000
"""The most values of a list, as of a form: each name may be compared with each attribute."""

_FLAT = "."
"""What names of the query protocol have, such as `AttributeName.1`. kombu 5.3 and 5.4 put them into
JSON too; Amazon passes over them, and so does this."""


class JsonDialect:
    name = "json"

    @staticmethod
    def is_for(headers: CIMultiDictProxy[str]) -> bool:
        """Return whether a request is in JSON. A form beside a target of another service is not:
        some clients of the query protocol send one."""
        media_type = headers.get("Content-Type", "").lower()
        target = headers.get("X-Amz-Target")
        if target is None or (_FORM in media_type and not target.startswith(TARGET)):
            return media_type.startswith("application/x-amz-json")
        return True

    def operation_of(self, asked: SqsRequest) -> str:
        target, *others = asked.headers.getall("X-Amz-Target", [""])
        if others:
            raise SQSError(INVALID_ACTION, "header X-Amz-Target is given twice")
        service, dot, operation = target.rpartition(".")
        if f"{service}{dot}" != TARGET:
            raise SQSError(
                INVALID_ACTION, f"header X-Amz-Target {target[:80]!r}: give {TARGET}OPERATION"
            )
        return operation

    def read(self, operation: str, asked: SqsRequest) -> Values:
        try:
            values: Values = _READERS[operation](_parse(asked.body))
        except _Wrong as wrong:
            raise wrong.tell("".join(reversed(wrong.path)).removeprefix(".")) from None
        return values

    def answer(self, operation: str, result: Mapping[str, Any], request_id: str) -> Answer:
        return _answer(200, request_id, _written(result))

    def refuse(self, error: SQSError, request_id: str) -> Answer:
        name, code, status, is_senders = error.fault
        document = {"__type": f"com.amazonaws.sqs#{name}", "message": str(error)}
        headers = {"x-amzn-query-error": f"{code};{'Sender' if is_senders else 'Receiver'}"}
        return _answer(status, request_id, _written(document), headers)


def _parse(body: bytes) -> Any:
    """Return what a body says, which may be empty. Raises SQSError."""
    try:
        return orjson.loads(body) if body.strip(_SPACE) else {}
    except orjson.JSONDecodeError as error:
        raise SQSError(SERIALIZATION, f"the body is not JSON: {error}") from None


def _written(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in UTF-8. A byte that was not UTF-8, as in a header `Host` that an
    address is made of, becomes a question mark."""
    try:
        return orjson.dumps(document, default=_blob)
    except orjson.JSONEncodeError:
        # The library also has no numbers beyond 64 bits, which a person may have noted.
        return json.dumps(document, default=_blob, ensure_ascii=False).encode(errors="replace")


def _blob(value: object) -> str:
    """Return how JSON shows what it has no form for: only bytes."""
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


def _answer(
    status: int, request_id: str, body: bytes, headers: Mapping[str, str] | None = None
) -> Answer:
    # Lines take a third of the time of a mapping.
    lines = f"Content-Type: {_TYPE}\r\nx-amzn-RequestId: {request_id}\r\n"
    return Answer(status, lines if headers is None else lines + lines_of(headers), body)


class _Wrong(Exception):
    """A value that is not what the model says. `path` has its place, from the inside to the
    outside, and `tell` makes the error of a place."""

    def __init__(self, tell: Callable[[str], SQSError], *path: str) -> None:
        self.tell = tell
        self.path = [*path]

    def inside(self, step: str) -> _Wrong:
        self.path.append(step)
        return self


def _must_be(kind: str) -> _Wrong:
    """Return the error of a value that should be of this kind."""

    def tell(place: str) -> SQSError:
        what = repr(place) if place else "the body"
        return SQSError(SERIALIZATION, f"{what} must be {kind}")

    return _Wrong(tell)


def _unknown(place: str) -> SQSError:
    return SQSError(SERIALIZATION, f"{place!r} is not a parameter of this operation")


def _null(place: str) -> SQSError:
    return SQSError(INVALID_PARAMETER_VALUE, f"{place!r} may not be null")


_Reader = Callable[[Any], Any]
"""What checks a value and returns it as the model has it; lists and objects change in their places.
Raises _Wrong."""


def _reader_of(shape: Shape) -> _Reader:
    if isinstance(shape, Scalar):
        return _SCALAR_READERS[shape]
    if isinstance(shape, Structure):
        return _structure_reader(shape)
    if isinstance(shape, ListOf):
        return _list_reader(shape)
    return _attributes_reader(shape) if shape is MESSAGE_ATTRIBUTES else _map_reader(shape)


def _structure_reader(shape: Structure) -> _Reader:
    readers = {name: _reader_of(each) for name, each in shape.members.items()}
    texts = frozenset(name for name, each in shape.members.items() if each is Scalar.TEXT)
    required = shape.required

    def read(value: Any) -> Values:
        found: Values = _read_object(value)
        name = ""
        try:
            for name, each in found.items():
                if type(each) is str and name in texts:
                    continue
                if name in readers:
                    if each is not None:
                        found[name] = readers[name](each)
                elif _FLAT not in name:
                    raise _Wrong(_unknown)
        except _Wrong as wrong:
            raise wrong.inside(_step(name)) from None
        found = _without_nulls(found)
        if not required <= found.keys():
            lacking = complete(shape, found)
            if lacking is not None:
                raise _Wrong(missing, _step(lacking))
        return found

    return read


def _map_reader(shape: MapOf) -> _Reader:
    read_value = _reader_of(shape.value)

    def read(value: Any) -> Values:
        found = _read_object(value)
        name = ""
        try:
            for name, each in found.items():
                if each is None:
                    raise _Wrong(_null)
                found[name] = read_value(each)
        except _Wrong as wrong:
            raise wrong.inside(_step(name)) from None
        return found

    return read


def _attributes_reader(shape: MapOf) -> _Reader:
    """Return what reads message attributes in half the time: most of them have a type and a text,
    and nothing else."""
    read_all = _map_reader(shape)

    def read(value: Any) -> Any:
        found = _read_object(value)
        for each in found.values():
            try:
                kind, text = each["DataType"], each["StringValue"]
            except (KeyError, TypeError):
                return read_all(found)
            if len(each) != 2 or type(kind) is not str or type(text) is not str:
                return read_all(found)
        return found

    return read


def _list_reader(shape: ListOf) -> _Reader:
    read_item = _reader_of(shape.item)

    def read(value: Any) -> list[Any]:
        if type(value) is not list or len(value) > _MAX_VALUES:
            raise _must_be(f"an array of up to {_MAX_VALUES} values")
        found: list[Any] = value
        at = 0
        try:
            for at, each in enumerate(found):
                found[at] = read_item(each)
        except _Wrong as wrong:
            raise wrong.inside(f"[{at}]") from None
        return found

    return read


def _read_object(value: Any) -> Values:
    if type(value) is not dict:
        raise _must_be("an object")
    return value


def _without_nulls(found: Values) -> Values:
    """Leave out what is null, which counts as missing."""
    if None not in found.values():
        return found
    return {name: value for name, value in found.items() if value is not None}


def _step(name: str) -> str:
    return f".{name[:80]}"


def _scalar_reader(kind: type, said: str) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _must_be(said)
        return value

    return read


_read_text = _scalar_reader(str, "a string")


def _read_blob(value: Any) -> bytes:
    try:
        return binascii.a2b_base64(_read_text(value), strict_mode=True)
    except ValueError:
        raise _must_be("a string of Base64") from None


_SCALAR_READERS: Mapping[Scalar, _Reader] = {
    Scalar.TEXT: _read_text,
    Scalar.WHOLE: _scalar_reader(int, "a whole number"),
    Scalar.TRUTH: _scalar_reader(bool, "true or false"),
    Scalar.BLOB: _read_blob,
}
_READERS: Mapping[str, _Reader] = {
    name: _structure_reader(operation.takes) for name, operation in OPERATIONS.items()
}
