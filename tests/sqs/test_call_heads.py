"""Which heads of quick requests are known, and what is taken for one."""

from __future__ import annotations

import pytest

from mq.config import SMALL_BODY_BYTES
from mq_sqs.call_heads import MAX_CALL_HEAD_BYTES, CallHead, CallHeads
from tests.support.wire import parse_request, request_bytes

DATE, NUMBER = "20261123T025004Z", "1-2-3"
SIGNATURE = "AWS4-HMAC-SHA256 Credential=a/b, Signature=0"


def sent(body: bytes = b"{}", **headers: str) -> bytes:
    own = {"x_amz_date": DATE, "authorization": SIGNATURE, "amz_sdk_invocation_id": NUMBER}
    target = {"x_amz_target": "AmazonSQS.SendMessage"}
    return request_bytes("POST", "/", body, **{**target, **own, **headers})


class CallLesson:
    """Heads that learn what a parser makes of some bytes."""

    def __init__(self) -> None:
        self.heads = CallHeads(lambda headers: "Origin" not in headers)

    def learn(self, data: bytes, before: bytes = b"") -> bool:
        """`before` is what the parser was given before `data`."""
        message, payload = parse_request(before, data)
        head = CallHead("SendMessage", message.path, "", message.headers)
        return self.heads.learn(data, message, payload.total_bytes, head)

    def knows(self, data: bytes) -> bool:
        return self.heads.find(data) is not None


@pytest.fixture
def lesson() -> CallLesson:
    return CallLesson()


def test_a_head_is_known_when_it_has_come_twice_whatever_is_the_requests_own(
    lesson: CallLesson,
) -> None:
    assert lesson.learn(sent())
    assert not lesson.knows(sent())
    assert lesson.learn(sent(b'{"a":1}', x_amz_date="20261123T025005Z"))

    body, own = b'{"a": [1, 2]}', {"authorization": "other; = text", "x_amz_date": "never"}
    found = lesson.heads.find(sent(body, **own))

    assert found is not None
    message, _ = parse_request(sent(body, **own))
    head, known_body = found
    assert (head.operation, head.path, head.query) == ("SendMessage", "/", "")
    assert head.own_headers() == message.headers
    assert known_body == body
    assert head.is_ours


def test_whether_a_head_is_ours_is_asked_when_it_is_kept(lesson: CallLesson) -> None:
    for _ in range(2):
        lesson.learn(sent(origin="http://elsewhere"))

    found = lesson.heads.find(sent(origin="http://elsewhere"))

    assert found is not None
    assert not found[0].is_ours


@pytest.mark.parametrize(
    "data",
    [
        sent()[:-1],
        sent() + b"!",
        sent() + sent(),
        sent()[1:],
        b"\r\n" + sent(),
        sent(x_amz_target="AmazonSQS.DeleteMessage"),
        sent(x_other="1"),
        sent(host="elsewhere"),
        sent().replace(b"Content-Length: 2", b"Content-Length: +2"),
        sent().replace(b"Content-Length: 2", b"Content-Length: 2 "),
        sent().replace(b"Content-Length: 2", b"Content-Length:  2"),
        sent().replace(b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 2"),
        sent().replace(b"Content-Length: 2", b"Content-Length: 2, 2"),
        sent().replace(b"Content-Length: 2\r\n", b""),
        sent().replace(b"Content-Length: 2", b"Transfer-Encoding: chunked"),
        sent().replace(DATE.encode(), b""),
        sent().replace(DATE.encode(), b"a\nX-Amz-Target: b"),
        sent().replace(DATE.encode(), b"a\rb"),
        sent().replace(DATE.encode(), b"\xe4"),
        sent().replace(DATE.encode(), b"a\0b"),
        sent().replace(DATE.encode(), b"a\r\n b"),
        sent(b"x" * (SMALL_BODY_BYTES + 1)),
        b"",
        b"\r\n\r\n",
    ],
)
def test_anything_else_is_for_the_parser(lesson: CallLesson, data: bytes) -> None:
    for _ in range(2):
        lesson.learn(sent())
    assert lesson.knows(sent())

    assert not lesson.knows(data)


def test_a_header_that_is_given_twice_is_never_known(lesson: CallLesson) -> None:
    for second in (b"x-amz-date: b", b"X-Amz-Date: b", b"X-Amz-Date:b", b"X-Amz-Date:"):
        data = sent()[:-4] + second + b"\r\n\r\n{}"
        for _ in range(3):
            assert lesson.learn(data)

        assert not lesson.knows(data)


@pytest.mark.parametrize("cut", [1, 4, 20, 60])
def test_the_end_of_a_head_is_not_taken_for_a_head(lesson: CallLesson, cut: int) -> None:
    for _ in range(3):
        assert not lesson.learn(sent()[cut:], before=sent()[:cut])

    assert not lesson.knows(sent()[cut:])


def test_a_request_without_a_length_and_one_with_a_long_head_are_parsed_each_time(
    lesson: CallLesson,
) -> None:
    for data in (request_bytes("GET", "/"), sent(authorization="x" * MAX_CALL_HEAD_BYTES)):
        for _ in range(3):
            assert lesson.learn(data)

        assert not lesson.knows(data)
