"""Heads that the parser has read before.

A client sends the same head with every receive, and with every publish of one length; the heads of
its removals differ in an id and a lease, those of its publishes perhaps in an id of its own. What
the parser made of such a head is kept by its bytes, so that it is read once and not each time. Only
the parser decides what a head means.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDictProxy

from mq.names import MessageId
from mq.web.connections.head_memory import (
    END_OF_HEAD,
    MAX_KNOWN_HEAD_BYTES,
    HeadMemory,
    Key,
    whole_head,
)
from mq.web.quick.publishing import QuickPublish
from mq.web.quick.removing import QuickRemoval
from mq.web.quick.taken_request import QuickHead

_REMOVAL = re.compile(
    rb"DELETE (/[^/?%, ]+/messages/)([0-9a-f-]{36}) HTTP/1\.1(\r\n.*?)"
    rb'(?:(?<=\n)(?i:If-Match): "([0-9a-f]{16})"(\r\n.*))?',
    re.DOTALL,
)
"""Any id and any lease that fit here are parsed alike."""

_OWN_ID = re.compile(rb"\r\n(?i:X-Message-Id): ([0-9A-Za-z-]{1,64})(?=\r\n|\Z)")
"""Any own id of a publish that fits here is parsed alike too."""


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
        key, end, body = data.partition(END_OF_HEAD)
        head = self._heads.get(key) or self._find_publish(key)
        if head is None or not end or len(body) != head.body_bytes:
            return None
        return head, body

    def _find_publish(self, data: bytes) -> QuickHead | None:
        """Return the head of a publish under an own id, if another one like it is known."""
        own = _read_own_id(data)
        if own is None or (alike := self._heads.get(own[0])) is None:
            return None
        method, queue, headers, asked, length, is_ours = alike
        assert isinstance(asked, QuickPublish), "the key is that of a publish"
        return QuickHead(method, queue, headers, asked._replace(own_id=own[1]), length, is_ours)

    def _find_removal(self, data: bytes) -> tuple[QuickHead, bytes] | None:
        removal = _read_removal(data)
        if removal is None or (alike := self._heads.get(removal[0])) is None:
            return None
        method, queue, headers, asked, _, is_ours = alike
        assert isinstance(asked, QuickRemoval), "the key is that of a removal"
        _, message_id, lease = removal
        leases = asked.leases
        if lease is not None:
            leases = frozenset((lease,)) if lease else frozenset()
        return QuickHead(method, queue, headers, QuickRemoval(message_id, leases), 0, is_ours), b""

    def learn(self, data: bytes, message: RawRequestMessage, head: QuickHead) -> bool:
        """Keep the head of a request when it comes for the second time. Returns whether `data`, the
        last that the parser was given and in which it found this one message, is the request from
        its first byte to its last: the parser is about to read a head then."""
        end = whole_head(data, message, head.body_bytes)
        if not end:
            return False
        without_end = data[: end - len(END_OF_HEAD)]
        key: Key | None = without_end
        if head.method == "DELETE":
            removal = _read_removal(data)
            has_one_guard = len(head.headers.getall("If-Match", ())) <= 1
            key = removal[0] if removal is not None and has_one_guard else None
        elif isinstance(head.asked, QuickPublish) and head.asked.own_id is not None:
            own = _read_own_id(without_end)
            key = own[0] if own is not None and own[1] == head.asked.own_id else None
        if key is not None and end <= MAX_KNOWN_HEAD_BYTES:
            self._memory.learn(key, lambda: head._replace(is_ours=self._is_ours(head.headers)))
        return True


def _read_own_id(data: bytes) -> tuple[Key, MessageId] | None:
    """Return what the head of a publish has in common with others, and its own id. Returns None if
    it has none of that form, or may have several."""
    found = _OWN_ID.search(data)
    if found is None or _OWN_ID.search(data, found.end()):
        return None
    return (data[: found.start()], data[found.end() :]), MessageId(found[1].decode())


def _read_removal(data: bytes) -> tuple[Key, MessageId, int | None] | None:
    """Return what a removal has in common with others, its id, and the lease in its precondition,
    if it has one of that form."""
    removal = _REMOVAL.fullmatch(data)
    if removal is None:
        return None
    path, message_id, before, lease, rest = removal.groups()
    key = path, before, rest
    return key, MessageId(message_id.decode()), None if lease is None else int(lease, 16)
