"""Which heads are known, and what is taken for one."""

from __future__ import annotations

import pytest
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from mq.names import MessageId, QueueName
from mq.web.connections import head_memory
from mq.web.connections.head_memory import MAX_KNOWN_HEAD_BYTES, MAX_KNOWN_HEADS
from mq.web.parameters import BareHead
from mq.web.quick.known_heads import KnownHeads
from mq.web.quick.publishing import QuickPublish
from mq.web.quick.receiving import QuickReceive
from mq.web.quick.removing import QuickRemoval, read_removal
from mq.web.quick.taken_request import AskedFor, QuickHead
from tests.support.wire import parse_request, request_bytes

ID = MessageId("01a205be-67fe-77cc-b5ba-b6aa66959255")
OTHER_ID = MessageId("01a205be-0000-7000-8000-000000000001")
PUBLISH = request_bytes("POST", "/orders/messages", b"body", content_type="text/plain")
RECEIVE = request_bytes("GET", "/orders/messages")


def removal(message_id: str, if_match: str | None = '"6da76b1b0281345a"', **more: str) -> bytes:
    headers = more if if_match is None else {"if_match": if_match, **more}
    return request_bytes("DELETE", f"/orders/messages/{message_id}", **headers)


class Lesson:
    """Heads that learn what a parser makes of some bytes."""

    def __init__(self) -> None:
        self.heads = KnownHeads(lambda headers: headers["Host"] != "any.example")

    def learn(self, data: bytes, before: bytes = b"") -> bool:
        """`before` is what the parser was given before `data`."""
        message, payload = parse_request(before, data)
        return self.heads.learn(data, message, head_of(message, payload))

    def knows(self, data: bytes) -> bool:
        return self.heads.find(data) is not None


def head_of(message: RawRequestMessage, payload: StreamReader) -> QuickHead:
    head = BareHead(message.headers)
    asked: AskedFor = QuickReceive((QueueName("orders"),))
    if message.method == "DELETE":
        asked = read_removal(head, message.path.rpartition("/")[2])
    elif message.method == "POST":
        own_id = message.headers.get("X-Message-Id")
        asked = QuickPublish(own_id=None if own_id is None else MessageId(own_id))
    queue = QueueName("orders")
    return QuickHead(message.method, queue, head.headers, asked, payload.total_bytes)


def own(message_id: str, **more: str) -> bytes:
    return request_bytes("POST", "/orders/messages", b"body", x_message_id=message_id, **more)


@pytest.fixture
def lesson() -> Lesson:
    return Lesson()


@pytest.mark.parametrize("data", [PUBLISH, RECEIVE, removal(ID), removal(ID, None)])
def test_a_head_is_known_when_it_has_come_twice(lesson: Lesson, data: bytes) -> None:
    assert lesson.learn(data)
    assert not lesson.knows(data)
    assert lesson.learn(data)
    assert lesson.knows(data)


def test_the_body_is_what_follows_a_known_head(lesson: Lesson) -> None:
    for _ in range(2):
        lesson.learn(PUBLISH)

    found = lesson.heads.find(PUBLISH.replace(b"body", b"\r\n\r\n"))

    assert found is not None
    assert (found[0].body_bytes, found[0].headers["Content-Type"]) == (4, "text/plain")
    assert found[1] == b"\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        PUBLISH[:-1],
        PUBLISH + b"!",
        PUBLISH + RECEIVE,
        PUBLISH[1:],
        b"\r\n" + PUBLISH,
        PUBLISH.replace(b"text/plain", b"text/html_"),
        PUBLISH.replace(b"Content-Length", b"content-length"),
        PUBLISH.replace(b"orders", b"orderz"),
        b"",
        b"\r\n\r\n",
    ],
)
def test_anything_but_one_whole_request_is_for_the_parser(lesson: Lesson, data: bytes) -> None:
    for _ in range(2):
        lesson.learn(PUBLISH)

    assert not lesson.knows(data)


@pytest.mark.parametrize("data", [RECEIVE, removal(ID), removal(ID, None)])
@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_a_head_without_its_last_bytes_is_for_the_parser(
    lesson: Lesson, data: bytes, missing: int
) -> None:
    for _ in range(2):
        lesson.learn(data)

    assert not lesson.knows(data[:-missing])


def test_removals_differ_in_an_id_and_a_lease(lesson: Lesson) -> None:
    for _ in range(2):
        lesson.learn(removal(ID))

    found = lesson.heads.find(removal(OTHER_ID, '"00000000000000ff"'))

    assert found is not None
    assert (found[0].method, found[0].asked) == ("DELETE", QuickRemoval(OTHER_ID, frozenset({255})))
    assert found[1] == b""


@pytest.mark.parametrize("if_match", [None, "*"])
def test_without_a_lease_removals_differ_in_an_id(lesson: Lesson, if_match: str | None) -> None:
    for _ in range(2):
        lesson.learn(removal(ID, if_match))

    found = lesson.heads.find(removal(OTHER_ID, if_match))

    assert found is not None
    assert found[0].asked == QuickRemoval(OTHER_ID, None)
    assert found[0].headers.get("If-Match") == if_match
    assert not lesson.knows(removal(OTHER_ID))
    assert not lesson.knows(removal(OTHER_ID, if_match) + b"\r\n")


@pytest.mark.parametrize("data", [PUBLISH, RECEIVE, removal(ID), removal(ID, None)])
def test_whether_a_head_passes_everywhere_is_known_with_it(lesson: Lesson, data: bytes) -> None:
    foreign = data.replace(b"Host: mq", b"Host: any.example")
    for each in (data, foreign) * 2:
        lesson.learn(each)

    for each, is_ours in ((data, True), (foreign, False)):
        found = lesson.heads.find(each)
        assert found is not None
        assert found[0].is_ours is is_ours


def test_a_lease_within_another_header_is_none(lesson: Lesson) -> None:
    data = removal(ID, None, x_other='If-Match: "6da76b1b0281345a"')
    for _ in range(2):
        lesson.learn(data)

    assert lesson.knows(data)
    assert not lesson.knows(data.replace(b"345a", b"345b"))


def test_a_lease_of_zero_is_none_that_was_ever_given(lesson: Lesson) -> None:
    for _ in range(2):
        lesson.learn(removal(ID))

    found = lesson.heads.find(removal(ID, f'"{"0" * 16}"'))

    assert found is not None
    assert found[0].asked == QuickRemoval(ID, frozenset())


@pytest.mark.parametrize(
    "data",
    [
        removal("own-id"),
        removal(f"{ID}?x=1"),
        removal(ID.replace("0", "%", 1)),
        removal(ID.upper()),
        removal(ID, None),
        removal(ID, None, x_other='If-Match: "6da76b1b0281345a"'),
        removal(ID, "*"),
        removal(ID, 'W/"6da76b1b0281345a"'),
        removal(ID, '"6da76b1b0281345a", "6da76b1b0281345b"'),
        removal(ID, '"6DA76B1B0281345A"'),
        removal(ID, x_other="1"),
        removal(ID)[:-2] + b"If-Match: *\r\n\r\n",
        removal(ID) + RECEIVE,
    ],
)
def test_another_removal_is_for_the_parser(lesson: Lesson, data: bytes) -> None:
    for _ in range(2):
        lesson.learn(removal(ID))

    assert not lesson.knows(data)


def test_a_removal_with_two_preconditions_is_never_known(lesson: Lesson) -> None:
    data = removal(ID)[:-2] + b'If-Match: "6da76b1b0281345b"\r\n\r\n'
    for _ in range(3):
        assert lesson.learn(data)

    assert not lesson.knows(data)


@pytest.mark.parametrize("cut", range(1, len(RECEIVE)))
def test_the_end_of_a_head_is_not_taken_for_a_head(lesson: Lesson, cut: int) -> None:
    for _ in range(3):
        assert not lesson.learn(RECEIVE[cut:], before=RECEIVE[:cut])

    assert len(lesson.heads._heads) == 0


@pytest.mark.parametrize(
    "before", [b"GET /other HTTP/1.1\r\nX-Other: ", b"GET /other HTTP/1.1\r\nA: 1\r\nX-Other: "]
)
def test_a_head_within_a_header_is_none(lesson: Lesson, before: bytes) -> None:
    for _ in range(3):
        assert not lesson.learn(RECEIVE, before)

    assert not lesson.knows(RECEIVE)


def test_long_heads_are_parsed_each_time(lesson: Lesson) -> None:
    data = request_bytes("GET", "/orders/messages", x_long="x" * MAX_KNOWN_HEAD_BYTES)
    for _ in range(3):
        assert lesson.learn(data)

    assert not lesson.knows(data)


def test_a_bounded_number_of_heads_is_kept(lesson: Lesson) -> None:
    for number in range(MAX_KNOWN_HEADS + 10):
        data = request_bytes("GET", "/orders/messages", x_number=str(number))
        for _ in range(2):
            lesson.learn(data)
        assert lesson.knows(data)

    assert len(lesson.heads._heads) == 10


def test_a_bounded_number_of_heads_that_came_once_is_remembered(
    lesson: Lesson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_memory, "_MAX_SEEN", 10)

    for number in range(25):
        lesson.learn(request_bytes("GET", "/orders/messages", x_number=str(number)))

    assert len(lesson.heads._memory._seen) == 5


def test_publishes_differ_in_their_own_ids(lesson: Lesson) -> None:
    lesson.learn(own("one"))
    lesson.learn(own("two"))

    for message_id in ("one", "three", ID, "x" * 64):
        found = lesson.heads.find(own(message_id))
        assert found is not None
        assert (found[0].asked, found[1]) == (QuickPublish(own_id=MessageId(message_id)), b"body")


@pytest.mark.parametrize(
    "data",
    [
        own("x" * 65),
        own("o_ne"),
        own("one "),
        own("one").replace(b": one", b":one"),
        own("one").replace(b"X-Message-Id: one", b"X-Message-Id: one\r\nX-Message-Id: two"),
        own("one").replace(b"X-Message-Id: one", b"X-Message-Id: o_ne\r\nX-Message-Id: two"),
        own("one", content_type="text/plain"),
        own("one").replace(b"/orders/", b"/bills/"),
        own("one").replace(b"POST", b"GET"),
        PUBLISH,
    ],
)
def test_what_is_not_like_a_publish_under_an_own_id_is_not_known(
    lesson: Lesson, data: bytes
) -> None:
    for message_id in ("one", "two", "one"):
        lesson.learn(own(message_id))

    assert not lesson.knows(data)


def test_a_head_with_an_own_id_in_another_form_is_not_kept(lesson: Lesson) -> None:
    data = own("one").replace(b": one", b":  one")
    for _ in range(3):
        lesson.learn(data)

    assert not lesson.knows(data)
