"""Heads that the parser has read before.

A client sends the same head with every receive, and with every publish of one length; the heads of
its removals differ in an id and a lease, those of its publishes perhaps in an id of its own. What
the parser made of such a head is kept by its bytes, so that it is read once and not each time. Only
the parser decides what a head means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDictProxy

from mq.names import MessageId, QueueName
from mq.store.by_id import Guard
from mq.store.removing.remove_under_lease import Removed

MAX_KNOWN_HEADS = 4096
MAX_KNOWN_HEAD_BYTES = 1024
_MAX_SEEN = 16_384

_END = b"\r\n\r\n"
_REMOVAL = re.compile(
    rb"DELETE (/[^/?%, ]+/messages/)([0-9a-f-]{36}) HTTP/1\.1(\r\n.*?)"
    rb'(?:(?<=\n)(?i:If-Match): "([0-9a-f]{16})"(\r\n.*))?',
    re.DOTALL,
)
"""Any id and any lease that fit here are parsed alike."""

_OWN_ID = re.compile(rb"\r\n(?i:X-Message-Id): ([0-9A-Za-z-]{1,64})(?=\r\n|\Z)")
"""Any own id of a publish that fits here is parsed alike too."""

_Key = bytes | tuple[bytes | None, ...]
H = TypeVar("H")


class HeadMemory(Generic[H]):
    """What was made of `heads`, by their keys. Of a head that has come only once, for example one
    with the number of a trace, no more than a hash is kept."""

    def __init__(self) -> None:
        self.heads: dict[_Key, H] = {}
        self._seen: set[int] = set()

    def learn(self, key: _Key, make: Callable[[], H]) -> None:
        """Keep a head when it comes for the second time."""
        if key in self.heads:
            return
        if (number := hash(key)) not in self._seen:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen.add(number)
            return
        if len(self.heads) >= MAX_KNOWN_HEADS:
            self.heads.clear()
        self.heads[key] = make()


class QuickHead(NamedTuple):
    """What a head asks for that the quick way can answer: a publish of `body_bytes`, a batch or a
    message whose packed properties are `trailer`, to the queue and to those in `also`, hidden for
    `delay_ns` at first, with the removal of `removes`; a receive of one message, or of lines for up
    to `limit`, which are hidden for `visibility_ns` and waited for, from the queue or else from
    those in `then`, which are named if there are any; one of `message_id`, or its release for 0 ns,
    on the condition `guard`; a removal of one message, or of `several`.
    `is_ours` says that `OriginPolicy` admits such a head on any connection."""

    method: str
    queue: QueueName
    headers: CIMultiDictProxy[str]
    body_bytes: int = 0
    content_type: str | None = None
    trailer: bytes = b""
    message_id: MessageId | None = None
    leases: frozenset[int] | None = None
    is_ours: bool = False
    also: tuple[QueueName, ...] = ()
    is_batch: bool = False
    limit: int | None = None
    visibility_ns: int | None = None
    wait_seconds: float = 0.0
    several: Sequence[MessageId] = ()
    delay_ns: int | None = None
    removes: Removed = None
    then: tuple[QueueName, ...] | None = None
    guard: Guard | None = None

    @property
    def more_queues(self) -> Iterator[QueueName]:
        """The queues that it needs to be allowed besides the first."""
        yield from self.also
        yield from self.then or ()
        if self.removes is not None:
            yield self.removes[0]


class KnownHeads:
    """The known heads of one server. `is_ours` is asked about each that is kept."""

    def __init__(self, is_ours: Callable[[CIMultiDictProxy[str]], bool]) -> None:
        self._is_ours = is_ours
        self._memory = HeadMemory[QuickHead]()
        self._heads = self._memory.heads

    def find(self, data: bytes) -> tuple[QuickHead, bytes] | None:
        """Return the head and the body of a whole request, or None if its head is not known or
        `data` is anything but one whole request. The parser must be about to read a head."""
        if data.startswith(b"DELETE "):
            return self._find_removal(data)
        key, end, body = data.partition(_END)
        head = self._heads.get(key) or self._find_publish(key)
        if head is None or not end or len(body) != head.body_bytes:
            return None
        return head, body

    def _find_publish(self, data: bytes) -> QuickHead | None:
        """Return the head of a publish under an own id, if another one like it is known."""
        own = _read_own_id(data)
        alike = None if own is None else self._heads.get(own[0])
        return None if own is None or alike is None else alike._replace(message_id=own[1])

    def _find_removal(self, data: bytes) -> tuple[QuickHead, bytes] | None:
        removal = _read_removal(data)
        alike = None if removal is None else self._heads.get(removal[0])
        if removal is None or alike is None:
            return None
        _, message_id, lease = removal
        _, queue, headers, _, _, _, _, leases, is_ours, *_ = alike
        if lease is not None:
            leases = frozenset((lease,)) if lease else frozenset()
        return QuickHead("DELETE", queue, headers, 0, None, b"", message_id, leases, is_ours), b""

    def learn(self, data: bytes, message: RawRequestMessage, head: QuickHead) -> bool:
        """Keep the head of a request when it comes for the second time. Returns whether `data`, the
        last that the parser was given and in which it found this one message, is the request from
        its first byte to its last: the parser is about to read a head then."""
        end = whole_head(data, message, head.body_bytes)
        if not end:
            return False
        without_end = data[: end - len(_END)]
        key: _Key | None = without_end
        if head.method == "DELETE":
            removal = _read_removal(data)
            has_one_guard = len(head.headers.getall("If-Match", ())) <= 1
            key = removal[0] if removal is not None and has_one_guard else None
        elif head.method == "POST" and head.message_id is not None:
            own = _read_own_id(without_end)
            key = own[0] if own is not None and own[1] == head.message_id else None
        if key is not None and end <= MAX_KNOWN_HEAD_BYTES:
            self._memory.learn(key, lambda: head._replace(is_ours=self._is_ours(head.headers)))
        return True


def _read_own_id(data: bytes) -> tuple[_Key, MessageId] | None:
    """Return what the head of a publish has in common with others, and its own id. Returns None if
    it has none of that form, or may have several."""
    found = _OWN_ID.search(data)
    if found is None or _OWN_ID.search(data, found.end()):
        return None
    return (data[: found.start()], data[found.end() :]), MessageId(found[1].decode())


def _read_removal(data: bytes) -> tuple[_Key, MessageId, int | None] | None:
    """Return what a removal has in common with others, its id, and the lease in its precondition,
    if it has one of that form."""
    removal = _REMOVAL.fullmatch(data)
    if removal is None:
        return None
    path, message_id, before, lease, rest = removal.groups()
    key = path, before, rest
    return key, MessageId(message_id.decode()), None if lease is None else int(lease, 16)


def whole_head(data: bytes, message: RawRequestMessage, body_bytes: int) -> int:
    """Return the length of a message's head in `data`, the last that the parser was given and in
    which it found this one message. Returns 0 if the message is not all of `data`: if the parser
    had begun it before, its first line would be another, or it would have more lines."""
    end = data.find(_END) + len(_END)
    first = f"{message.method} {message.path} HTTP/1.1\r\n".encode("utf-8", "surrogateescape")
    lines = len(message.raw_headers) + 2
    is_whole = data.startswith(first) and data.count(b"\r\n", 0, end) == lines
    return end if is_whole and len(data) - end == body_bytes else 0
