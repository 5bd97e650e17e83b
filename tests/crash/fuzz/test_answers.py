"""Answers that may come from anything: the clients return what a server of MQ says, or raise
ClientError."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from mq.client import ClientError, Counts, Peeked, by_id, moves, operations, publishing
from mq.client.connection import parse_url
from mq.client.messages import Delivery, NewMessage
from mq.client.retries import Context, new_context
from mq.client.token import Token
from mq.client.wire import Operation, ServerAnswer
from mq.names import QueueName, is_message_id
from tests.crash.fuzz.drawing import ANY_TEXT, ID, edited
from tests.crash.fuzz.json_text import Drawn
from tests.crash.fuzz.judging import Grammar, judge_examples, judge_for

_SHORT_EXAMPLES = 60
_LONG_SECONDS = 60
"""For all of them together."""

ORDERS, RETURNS = QueueName("orders"), QueueName("returns")
_ID, _LEASE, _TIME = "order-1", "0f9e8d7c6b5a4938", "2026-11-21T08:08:19.313206Z"
_MESSAGE = NewMessage("a", message_id=_ID)

_LINE = {
    "id": _ID, "lease": _LEASE, "published_at": _TIME, "visible_at": _TIME, "state": "ready",
    "receive_count": 1, "content_type": "text/plain", "body": "coffee", "damaged": False,
    "properties": {"x-meta-a": "b"}, "dead_from": "orders", "dead_reason": "rejected",
}  # fmt: skip
_COUNTS = {"queue": "orders", "ready": 1, "leased": 0, "delayed": 0, "oldest_age_seconds": 1.5,
           "settings": {"visibility": 60, "dead-letters": "returns"}}  # fmt: skip
_OUTCOME = {"id": _ID, "status": 404, "type": "urn:mq:problem:message-not-found", "title": "Gone",
            "detail": "it is gone"}  # fmt: skip
_HEADERS = {
    "x-message-id": _ID, "etag": f'"{_LEASE}"', "x-published-at": _TIME, "x-visible-at": _TIME,
    "x-receive-count": "1", "content-type": "text/plain", "x-dead-from": "orders",
    "x-properties-left-out": "0", "date": "Sat, 21 Nov 2026 08:08:19 GMT", "retry-after": "1",
}  # fmt: skip

_HOSTILE = st.sampled_from(
    [None, True, 0, -1, 1e308, math.inf, -math.inf, math.nan, 10**400, "", "\ud800", "\r\nA: b",
     "9" * 5000, [], {}, ["a"], {"a": None}, _TIME[:-1], "9999-12-31T23:59:59-23:59", 404, 200]
)  # fmt: skip
_RAW = st.sampled_from([b"[" * 50_000, b'{"id":' * 50_000, b"", b"null", b"\xff", b"9" * 5000])
_TEXTS = edited(st.sampled_from([*_HEADERS.values()])) | st.from_regex(ID) | ANY_TEXT


@st.composite
def changed(draw: Drawn, document: Mapping[str, object]) -> bytes:
    """A document in which up to two members are missing or have other values."""
    members = dict(document)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from([*document]))
        members[name] = draw(_HOSTILE)
        if draw(st.booleans()):
            del members[name]
    return json.dumps(members).encode()


@st.composite
def answers(draw: Drawn, status: int, document: Mapping[str, object]) -> ServerAnswer:
    bodies = st.lists(changed(document), min_size=1, max_size=2).map(b"\n".join)
    headers = dict(_HEADERS)
    for _ in range(draw(st.integers(0, 2))):
        headers[draw(st.sampled_from([*_HEADERS]))] = draw(_TEXTS)
    any_status = st.sampled_from([status] * 4 + [400, 404, 409, 412, 503, 302])
    return ServerAnswer(draw(any_status), "", headers, draw(bodies | bodies | _RAW), 0.0)


def check(result: object) -> None:
    """The values have the types that the documents say."""
    for each in result if isinstance(result, list) else [result]:
        if isinstance(each, Counts):
            assert isinstance(each.queue, str)
            assert all(isinstance(number, int) for number in each[1:4])
            assert math.isfinite(each.oldest_age_seconds or 0)
        if isinstance(each, Delivery | Peeked):
            assert is_message_id(each.id)
            assert isinstance(each.receive_count, int | None)
            assert isinstance(each.content_type, str)
            assert isinstance(each.dead_from, str | None)
            assert isinstance(each.dead_reason, str | None)
            for time in (each.published_at, each.visible_at):
                assert time is None or time.tzinfo is not None
        if isinstance(each, Delivery):
            assert len(each.lease) == 16
            assert each.lease.isalnum()


Call = Callable[[Context], Operation[Any]]
CALLS: dict[str, tuple[Call, int, Mapping[str, object]]] = {
    "create": (lambda context: operations.create_queue(context, ORDERS), 201, {"a": 1}),
    "settings": (lambda context: operations.read_settings(context, ORDERS), 200, _COUNTS),
    "counts": (lambda context: operations.count(context, ORDERS), 200, _COUNTS),
    "purge": (lambda context: operations.purge(context, ORDERS, "all"), 200, {"purged": 5}),
    "publish": (
        lambda context: publishing.publish(context, [ORDERS], _MESSAGE),
        201, {"id": _ID},
    ),
    "publish many": (
        lambda context: publishing.publish_many(context, [ORDERS], [_MESSAGE]),
        201, {"id": _ID},
    ),
    "receive": (lambda context: operations.receive(context, [ORDERS], 0, None), 200, _LINE),
    "receive many": (
        lambda context: operations.receive_many(context, [ORDERS], 9, 0, 5), 200, _LINE
    ),
    "peek": (lambda context: operations.peek(context, ORDERS, 9, None), 200, _LINE),
    "acknowledge many": (
        lambda context: by_id.acknowledge_many(context, ORDERS, {_ID: _LEASE}), 207, _OUTCOME,
    ),
    "move": (lambda context: moves.move(context, ORDERS, RETURNS, 9, None), 200, {"moved": 3}),
    "move many": (
        lambda context: moves.move_many(context, ORDERS, RETURNS, [_ID], None), 207, _OUTCOME,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def context() -> Context:
    address = parse_url("http://localhost", None, None)
    return new_context(address.url, Token("secret", None, address), 60.0, 0.0)


def grammar(context: Context, name: str) -> Grammar:
    call, status, document = CALLS[name]

    def judge(answer: ServerAnswer) -> None:
        operation = call(context)
        next(operation)
        try:
            operation.send(answer)
        except ClientError:
            pass
        except StopIteration as done:
            check(done.value)

    return Grammar(answers(status, document), judge)


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_understood_or_an_error_of_the_client(context: Context, name: str) -> None:
    judge_examples(grammar(context, name), _SHORT_EXAMPLES)


@pytest.mark.crash_long
@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_understood_or_an_error_of_the_client_for_longer(
    context: Context, name: str
) -> None:
    judge_for(grammar(context, name), _LONG_SECONDS / len(CALLS))
