"""Heads of requests that the parser has read before.

As in `mq.web.quick.known_heads`, which says more. Here the heads of a client differ in what
each request has of its own: length, time, signature, and numbers that an SDK gives it. So a head is
known by all of it except for these values, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy

from mq.config import SMALL_BODY_BYTES
from mq.web.connections.head_memory import HeadMemory, whole_head
from mq_sqs.signing.last_signed import LastSigned

MAX_CALL_HEAD_BYTES = 2048

_OWN = re.compile(
    rb"(\r\n(?i:Content-Length|Authorization|X-Amz-(?:Date|Content-SHA256|Security-Token)"
    rb"|amz-sdk-(?:invocation-id|request)|X-Amzn-Trace-Id): )(?! )([ -~]+)(?<! )(?=\r\n)"
)
"""Name and value of a header that is a request's own. The parser takes each such value as it is."""

_LENGTH = "content-length"
_END = b"\r\n\r\n"


class CallHead(NamedTuple):
    """A head as far as a call needs it. `path` is without the query, both still percent-encoded.

    `headers` are those of the first head that was alike; this one has values of its own for some of
    them. `is_ours` says that `OriginPolicy` admits such a head on any connection. Heads that are
    alike have one `last_signed`.
    """

    operation: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]
    is_ours: bool = False
    own_names: Sequence[str] = ()
    own_values: Sequence[bytes] = ()
    last_signed: LastSigned | None = None

    def value_of(self, name: str) -> str | None:
        """Return the value of a header of this very head; its name is in lower case."""
        if name in self.own_names:
            return self.own_values[self.own_names.index(name)].decode()
        return self.headers.get(name)

    def own_headers(self) -> CIMultiDictProxy[str]:
        """Return the headers of this very head."""
        if not self.own_names:
            return self.headers
        headers = CIMultiDict(self.headers)
        for name, value in zip(self.own_names, self.own_values, strict=True):
            headers[name] = value.decode()
        return CIMultiDictProxy(headers)


class _LearnedHead(NamedTuple):
    """A head that was learned, and which of its own values is the length."""

    head: CallHead
    length_at: int


class CallHeads:
    """The known heads of one gateway. `is_ours` is asked about each that is kept."""

    def __init__(self, is_ours: Callable[[CIMultiDictProxy[str]], bool]) -> None:
        self._is_ours = is_ours
        self._memory = HeadMemory[_LearnedHead]()

    def find(self, data: bytes) -> tuple[CallHead, bytes] | None:
        """Return the head and the body of a whole request, or None if its head is not known or
        `data` is anything but one whole request. The parser must be about to read a head."""
        end = data.find(_END) + len(_END)
        if end > MAX_CALL_HEAD_BYTES:
            return None
        key, values = _cut(data[:end])
        learned = self._memory.heads.get(key)
        if learned is None:
            return None
        length, body = values[learned.length_at], data[end:]
        if len(body) > SMALL_BODY_BYTES or not length.isdigit() or int(length) != len(body):
            return None
        operation, path, query, headers, is_ours, own, _, last = learned.head
        return CallHead(operation, path, query, headers, is_ours, own, values, last), body

    def learn(
        self, data: bytes, message: RawRequestMessage, body_bytes: int, head: CallHead
    ) -> bool:
        """Do as `mq.web.quick.known_heads.KnownHeads.learn` does, for a request with a
        body."""
        end = whole_head(data, message, body_bytes)
        if not end:
            return False
        key, values = _cut(data[:end])
        own = [name.decode().strip()[:-1].lower() for name in key[1::2]]
        are_read_alike = all(
            head.headers.getall(name) == [value.decode()]
            for name, value in zip(own, values, strict=True)
        )
        if end <= MAX_CALL_HEAD_BYTES and _LENGTH in own and are_read_alike:
            self._memory.learn(key, lambda: self._keep(head, own))
        return True

    def _keep(self, head: CallHead, own: list[str]) -> _LearnedHead:
        is_ours = self._is_ours(head.headers)
        kept = head._replace(is_ours=is_ours, own_names=own, last_signed=LastSigned())
        return _LearnedHead(kept, own.index(_LENGTH))


def _cut(head: bytes) -> tuple[tuple[bytes, ...], list[bytes]]:
    """Return all of a head but the values that are its request's own, and these values."""
    pieces = _OWN.split(head)
    values = pieces[2::3]
    del pieces[2::3]
    return tuple(pieces), values
