"""The query protocol: a form or a query string with `Action`, answers in XML.

A list is `NAME.1`, `NAME.2`; a map is `NAME.1.Name` and `NAME.1.Value`; the members of a structure
follow a dot.
"""

from __future__ import annotations

import base64
import re
from binascii import Error as Base64Error
from binascii import a2b_qp
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from mq.web.answers import Answer
from mq_sqs.faults import (
    INVALID_PARAMETER_VALUE,
    MALFORMED_QUERY,
    MISSING_ACTION,
    NO_OPERATION,
    QUEUE_DOES_NOT_EXIST,
    SERIALIZATION,
    SQSError,
    missing,
)
from mq_sqs.messages.message_attributes import is_text
from mq_sqs.model import OPERATIONS, ListOf, MapOf, Scalar, Shape, Structure, complete
from mq_sqs.protocol import SqsRequest, Values

_NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
_NO_QUEUE = "The specified queue does not exist for this wsdl version."
"""What Amazon says in this protocol, which clients look for."""
_MAX_FIELDS = 2000
_MAX_DOTS = 8
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_INDEX = re.compile(r"[1-9][0-9]{0,5}")
_TRUTH = {"true": True, "false": False}
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"}
"""In their order: the first is a part of the others."""
_UNWRITABLE = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_OF_EVERY_REQUEST = frozenset({
    "Action", "Version", "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion",
    "Timestamp", "Expires", "SecurityToken", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date",
    "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Security-Token",
})  # fmt: skip
"""Names that say who asks, and how. None of them is a parameter of an operation."""

Node = dict[str, Any]
"""The names of a form as a tree: what follows a dot is a level below; a leaf is a str."""


class QueryDialect:
    name = "query"

    def operation_of(self, asked: SqsRequest) -> str:
        action = _fields(asked).get("Action")
        if not action:
            raise SQSError(
                NO_OPERATION if asked.method == "GET" else MISSING_ACTION,
                "The request must contain the parameter Action, or the header X-Amz-Target.",
            )
        return action

    def read(self, operation: str, asked: SqsRequest) -> Values:
        fields = _fields(asked)
        takes = OPERATIONS[operation].takes
        url = unquote(asked.path)
        if "QueueUrl" in takes.members and "QueueUrl" not in fields and url.strip("/"):
            fields["QueueUrl"] = url
        tree: Node = {}
        for name, value in fields.items():
            if name not in _OF_EVERY_REQUEST:
                _plant(tree, name, value)
        return _read_structure(takes, tree, "")

    def answer(self, operation: str, result: Mapping[str, Any], request_id: str) -> Answer:
        gives = OPERATIONS[operation].gives
        inside = "" if gives is None else _element(f"{operation}Result", _members(gives, result))
        metadata = _element("ResponseMetadata", _element("RequestId", request_id))
        return _answer(200, request_id, f"{operation}Response", inside + metadata)

    def refuse(self, error: SQSError, request_id: str) -> Answer:
        _, code, status, is_senders = error.fault
        kind = _element("Type", "Sender" if is_senders else "Receiver")
        text = _NO_QUEUE if error.fault is QUEUE_DOES_NOT_EXIST else str(error)
        told = kind + _element("Code", code) + _element("Message", _escape(text))
        inside = _element("Error", f"{told}<Detail/>") + _element("RequestId", request_id)
        return _answer(status, request_id, "ErrorResponse", inside)


def _fields(asked: SqsRequest) -> dict[str, str]:
    """Return the fields of the query string and of the form. Raises SQSError."""
    found: dict[str, str] = {}
    body = asked.body if asked.method == "POST" else b""
    for text in (asked.query.encode(), body):
        if text.count(b"&") >= _MAX_FIELDS:
            raise SQSError(MALFORMED_QUERY, f"there are more than {_MAX_FIELDS} parameters")
        try:
            pairs = [_pair_in(each) for each in text.split(b"&") if each]
        except UnicodeDecodeError:
            raise SQSError(MALFORMED_QUERY, "the form must be UTF-8") from None
        for name, value in pairs:
            if name in found:
                raise SQSError(MALFORMED_QUERY, f"parameter {name[:80]!r} is given twice")
            found[name] = value
    return found


def _pair_in(field: bytes) -> tuple[str, str]:
    name, _, value = field.partition(b"=")
    return _decoded(name), _decoded(value)


def _decoded(text: bytes) -> str:
    """Return a text of a form. Raises UnicodeDecodeError.

    Everyone else waits meanwhile, and `unquote_to_bytes` takes 0.3 s for 1 MiB of which every byte
    is escaped. Quoted-printable has another sign for the same escapes, and a decoder in C. It may
    be that the text has the sign without an escape: then too little is left out, or a line break.
    """
    data = text.replace(b"+", b" ")
    signs = data.count(b"%")
    if not signs:
        return data.decode()
    plain = a2b_qp(data.replace(b"=", b"=3D").replace(b"%", b"="))
    if len(plain) != len(data) - 2 * signs or b"%\n" in data or b"%\r" in data:
        plain = unquote_to_bytes(data)
    return plain.decode()


def _plant(tree: Node, name: str, value: str) -> None:
    *way, last = name.split(".", _MAX_DOTS)
    for part in way:
        below = tree.setdefault(part, {})
        if not isinstance(below, dict):
            raise _unknown(name)
        tree = below
    if last in tree:
        raise _unknown(name)
    tree[last] = value


def _read(shape: Shape, node: Any, place: str) -> Any:
    if isinstance(shape, Scalar):
        return _read_scalar(shape, node, place)
    # Some clients leave the number out if there is one value.
    if isinstance(shape, ListOf):
        items = [(place, node)] if isinstance(node, str) else _numbered(node, place)
        return [_read(shape.item, each, below) for below, each in items]
    if isinstance(shape, MapOf):
        pair = Structure(
            {shape.key: Scalar.TEXT, "Value": shape.value}, frozenset({shape.key, "Value"})
        )
        is_single = isinstance(node, dict) and not node.keys().isdisjoint(pair.members)
        items = [(place, node)] if is_single else _numbered(node, place)
        read = [_read_structure(pair, each, below) for below, each in items]
        found = {each[shape.key]: each["Value"] for each in read}
        if len(found) != len(read):
            raise SQSError(INVALID_PARAMETER_VALUE, f"a name in {place!r} is given twice")
        return found
    return _read_structure(shape, node, place)


def _read_structure(shape: Structure, node: Any, place: str) -> Values:
    if not isinstance(node, dict):
        raise _unknown(place)
    found: Values = {}
    left = set(node)
    for member, below in shape.members.items():
        # Some clients write a list by the name of the member: botocore an empty one, ExAws `All`.
        by_member = isinstance(below, ListOf) and member in node
        name = below.name if isinstance(below, ListOf | MapOf) and not by_member else member
        if name in node:
            value = node[name] or {} if by_member else node[name]
            found[member] = _read(below, value, f"{place}.{name}" if place else name)
            left.discard(name)
    for name in left:
        raise _unknown(f"{place}.{name}" if place else name)
    lacking = complete(shape, found)
    if lacking is not None:
        raise missing(f"{place}.{lacking}" if place else lacking)
    return found


def _numbered(node: Any, place: str) -> list[tuple[str, Any]]:
    """Return the values in the order of their numbers, which may have gaps."""
    if not isinstance(node, dict) or not all(map(_INDEX.fullmatch, node)):
        raise _unknown(place)
    return [(f"{place}.{number}", node[number]) for number in sorted(node, key=int)]


def _read_scalar(shape: Scalar, node: Any, place: str) -> Any:
    if not isinstance(node, str):
        raise _unknown(place)
    if shape is Scalar.WHOLE:
        if not _WHOLE.fullmatch(node):
            raise _wrong(place, "a whole number")
        return int(node)
    if shape is Scalar.TRUTH:
        if node.lower() not in _TRUTH:
            raise _wrong(place, "true or false")
        return _TRUTH[node.lower()]
    if shape is Scalar.BLOB:
        try:
            return base64.b64decode(node, validate=True)
        except (Base64Error, ValueError):
            raise _wrong(place, "Base64") from None
    return node


def _unknown(name: str) -> SQSError:
    return SQSError(SERIALIZATION, f"{name[:200]!r} is not a parameter of this operation")


def _wrong(place: str, kind: str) -> SQSError:
    return SQSError(INVALID_PARAMETER_VALUE, f"{place[:200]!r} must be {kind}")


def _answer(status: int, request_id: str, name: str, inside: str) -> Answer:
    text = f'<?xml version="1.0"?><{name} xmlns="{_NAMESPACE}">{inside}</{name}>'
    headers = {"Content-Type": "text/xml", "x-amzn-RequestId": request_id}
    return Answer(status, headers, text.encode())


def _members(shape: Structure, values: Mapping[str, Any]) -> str:
    return "".join(
        _written(below, name, values[name])
        for name, below in shape.members.items()
        if name in values
    )


def _written(shape: Shape, name: str, value: Any) -> str:
    if isinstance(shape, ListOf):
        return "".join(_written(shape.item, shape.name, each) for each in value)
    if isinstance(shape, MapOf):
        return "".join(
            _element(
                shape.name,
                _element(shape.key, _escape(key)) + _written(shape.value, "Value", each),
            )
            for key, each in value.items()
        )
    if isinstance(shape, Structure):
        return _element(name, _members(shape, value))
    return _element(name, _text(value))


def _text(value: str | bytes | bool | int) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return _escape(value) if isinstance(value, str) else str(value)


def _element(name: str, inside: str) -> str:
    return f"<{name}>{inside}</{name}>" if inside else f"<{name}/>"


def _escape(text: str) -> str:
    """Escape a text for XML. `\r` needs an escape too, because XML makes the same character of
    every line break. What XML cannot contain becomes U+FFFD."""
    for character, written in _ESCAPES.items():
        text = text.replace(character, written)
    return text if is_text(text) else _UNWRITABLE.sub("\ufffd", text)
