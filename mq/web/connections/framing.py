"""The bytes of a connection that are not a body: heads, and what chunks contain besides their
data."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiohttp import StreamReader, web
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, InvalidURLError, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDictProxy, istr

from mq.config import KIB, MAX_HEAD_BYTES, MAX_REQUEST_LINE_BYTES
from mq.errors import InvalidRequest, PropertiesTooLarge
from mq.properties import MAX_PROPERTIES_BYTES, is_property
from mq.web.connections.last_chunks import LastChunks

MAX_HEADERS = 64
MAX_HEADER_BYTES = 4096
"""How many headers a request may have, and how long one may be that is not a property."""

MAX_WAITING_BYTES = 256 * KIB
"""While the requests that wait behind another one have more bytes of bodies than this, no more is
read of their connection."""

_CHUNK_BYTES = 16
"""What a chunk needs besides its data, and a few zeros in front of its size."""

_OTHER_HEAD_BYTES = 4
"""`: ` and the end of the line of each header."""

_END = b"\r\n\r\n"
"""The end of a head, and of a body in chunks."""

_MOST_SHOWN_CHARACTERS = 1000
"""How much an answer shows of what the parser says. It shows the line in which it found something
wrong, and that may be all that came."""


_PROPERTY = re.compile(
    rb"\n(?:traceparent|tracestate|baggage|content-encoding|content-language|ce-|x-meta-)", re.I
)

_CONTENT_LENGTH = istr("Content-Length")
TRANSFER_ENCODING = istr("Transfer-Encoding")

_LONG_HEAD = f"the head has more than {MAX_HEAD_BYTES} bytes"


class HeadTooLong(BadHttpMessage):
    """A request whose head is over a limit."""


def blame(error: BaseException, data: bytes) -> BaseException:
    """Return the error to report for a request that could not be read, given the bytes that came
    last. If a limit is the cause, it names that. A head over a limit that has properties is over
    theirs."""
    error.__traceback__ = None  # Its frames hold what came, and the error itself.
    error = _in_our_words(error)
    if not isinstance(error, HeadTooLong) or not _PROPERTY.search(data):
        return error
    return PropertiesTooLarge(
        f"the properties have more than {MAX_PROPERTIES_BYTES} bytes, or they are too many: the "
        f"head of a request has at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers"
    )


def _in_our_words(error: BaseException) -> BaseException:
    """Return an error in our words for what the parser says of a limit, and of a target, of which
    it may say nothing but the target. Returns any other error as it is."""
    if isinstance(error, InvalidURLError):
        target = error.message[:_MOST_SHOWN_CHARACTERS]
        return BadHttpMessage(f"the target is neither a path nor a URL: {target}")
    if isinstance(error, LineTooLong):
        if error.args[1] == MAX_HEAD_BYTES:
            return HeadTooLong(_LONG_HEAD)
        return BadHttpMessage(
            f"path and query have more than {MAX_REQUEST_LINE_BYTES} bytes; ask for less at once"
        )
    if str(error.args[0] if error.args else "").startswith("Too many headers"):
        return HeadTooLong(f"the request has more than {MAX_HEADERS} headers")
    if isinstance(error, BadHttpMessage) and len(error.message) > _MOST_SHOWN_CHARACTERS:
        return BadHttpMessage(f"{error.message[:_MOST_SHOWN_CHARACTERS]}...")
    return error


class Framing:
    """Counts the bytes of one connection that the parser keeps or passes over without limit: a head
    that is not whole yet, chunk extensions, trailers."""

    __slots__ = (
        "_asks_for_upgrade",
        "_extra_bytes",
        "_is_followed",
        "_may_be_in_head",
        "body",
        "last_chunks",
        "may_have_lost",
    )

    def __init__(self) -> None:
        self.body: StreamReader | None = None
        """The body under way: that of the last request, until it is whole."""
        self._extra_bytes = 0
        self._may_be_in_head = False
        self._is_followed = False
        self._asks_for_upgrade = False
        self.last_chunks = LastChunks()
        self.may_have_lost = False
        """Whether the parser may have passed over the beginning of another request. It does so with
        all that comes in one piece with the end of one that asks for another protocol."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is under way, so that a short piece cannot go over the limit."""
        is_between = self.body is None and self.last_chunks.is_clear
        return is_between and not (self._extra_bytes or self._may_be_in_head)

    @property
    def is_in_head(self) -> bool:
        """Whether a head has begun that is not whole yet."""
        return self.body is None and self._extra_bytes > 0

    @property
    def has_next(self) -> bool:
        """Whether a head has begun behind the last request that is whole."""
        return self._is_followed or self.is_in_head

    def note_end(
        self,
        data: bytes,
        position: int,
        last: tuple[object, StreamReader] | None,
        is_held_back: bool,
    ) -> None:
        """Note whether a piece that was parsed has more behind the last request that ends in it.
        `last` is the last request whose head ends in it, if there is one. What looks like the end
        of a request is taken for that. A piece that the parser holds back tells nothing: whole
        requests may be in it."""
        request = self.body if last is None else last[1]
        if request is None:
            return
        if last is not None:
            self._asks_for_upgrade = getattr(last[0], "upgrade", False)
        end = len(data)
        if request is not EMPTY_PAYLOAD and request._http_chunk_splits is None:
            end -= request.total_bytes - (position if last is None else 0)
        is_whole = data.endswith(_END, 0, end) or _END.endswith(data[:end])
        self._is_followed = request.is_eof() and not is_whole and not is_held_back
        # One that began in an earlier piece, or behind another, is taken for one that is followed.
        own = data.find(_END) + len(_END) if self.is_plain else -1
        is_alone = end == (0 if last is None else own)
        self.may_have_lost = self._asks_for_upgrade and request.is_eof() and not is_alone

    def ends_with_chunks(self) -> bool:
        """Return whether a body in chunks was the last that came, so that a new parser is to read
        what comes next."""
        if not self.last_chunks.are_over():
            return False
        self._may_be_in_head = False
        return True

    def position(self) -> int:
        """Return how many bytes of the body under way are accounted for. It is asked before a piece
        is parsed."""
        return 0 if self.body is None else _accounted(self.body)

    def count(
        self,
        data: bytes,
        position: int,
        came: Iterable[tuple[RawRequestMessage, StreamReader]],
        is_held_back: bool,
    ) -> BadHttpMessage | None:
        """Count a piece that was parsed, and with which these requests came. Returns what is wrong,
        or None. `is_held_back` means that the parser has not seen all of it yet."""
        body, is_at_head = self.body, self.is_plain
        extra = self._extra_bytes + len(data) - (self.position() - position)
        for message, payload in came:
            if is_at_head and _is_of_another_protocol(data, message):
                return BadHttpMessage("the request line is not one of HTTP; send HTTP/1.1")
            is_at_head = False
            head = _head_length(message)
            if head > MAX_HEAD_BYTES:
                return HeadTooLong(_LONG_HEAD)
            name = _find_long_header(message)
            if name is not None:
                return HeadTooLong(f"header {name} has more than {MAX_HEADER_BYTES} bytes")
            extra -= head + _accounted(payload)
            body = payload
        if extra > MAX_HEAD_BYTES and not is_held_back:
            if body is None:
                return HeadTooLong(_LONG_HEAD)
            return BadHttpMessage(
                f"chunk extensions and trailers have more than {MAX_HEAD_BYTES} bytes"
            )
        if body is not None and body.is_eof():
            # What is left may be a head that has begun behind it: that is counted once it is whole.
            self._may_be_in_head, body, extra = extra != 0, None, 0
        self.body, self._extra_bytes = body, max(extra, 0)
        return None

    def break_body(self, reason: str) -> None:
        """Raise RequestPayloadError in the reader of the body under way. To end the body there
        would let it pass for a whole one."""
        if self.body is not None:
            self.body.set_exception(web.RequestPayloadError(reason))


def _accounted(body: StreamReader) -> int:
    """Return how many bytes the data of a body, and the sizes of the chunks that have ended,
    account for. Chunks that were read are no longer known, so compare only numbers from within one
    call."""
    if body is EMPTY_PAYLOAD:
        return 0
    return body.total_bytes + _CHUNK_BYTES * len(body._http_chunk_splits or ())


def _head_length(message: RawRequestMessage) -> int:
    headers = sum(len(name) + len(value) + _OTHER_HEAD_BYTES for name, value in message.raw_headers)
    return len(message.method) + len(message.path) + len(" HTTP/1.1\r\n\r\n ") + headers


def _is_of_another_protocol(data: bytes, message: RawRequestMessage) -> bool:
    """Return whether a piece begins with a request line of RTSP or ICE, which the parser takes for
    one of HTTP."""
    target = f"{message.method} {message.path} ".encode(errors="surrogateescape")
    return data.lstrip(b"\r\n").startswith((target + b"RTSP/", target + b"ICE/"))


def _find_long_header(message: RawRequestMessage) -> str | None:
    """Return a header that is over its limit, or None. Properties have another limit."""
    for raw_name, value in message.raw_headers:
        if len(raw_name) + len(value) > MAX_HEADER_BYTES:
            name = raw_name.decode("latin-1")
            if not is_property(name.lower()):
                return name
    return None


def are_heavy(waiting: Iterable[tuple[object, StreamReader]]) -> bool:
    """Return whether the bodies of requests that wait are more than MAX_WAITING_BYTES."""
    return sum(_accounted(body) for _, body in waiting) > MAX_WAITING_BYTES


def is_simple(data: bytes, request: tuple[RawRequestMessage, StreamReader]) -> bool:
    """Return whether a piece that came with one request cannot go over a limit of it, and ends with
    it: it is short and of HTTP, and the request is whole and not in chunks."""
    message, payload = request
    is_whole = payload.is_eof() and not message.chunked
    end = data.find(_END) + len(_END) + payload.total_bytes
    is_alone = len(data) == end <= MAX_HEADER_BYTES
    return is_whole and is_alone and b" HTTP/1." in data[: data.find(b"\r\n")]


def has_lost_body(headers: CIMultiDictProxy[str], body: StreamReader) -> bool:
    """Return whether a request announces a body that the parser does not give out: its own word for
    no length is a number that a client can send, 18446744073709551615."""
    return body is EMPTY_PAYLOAD and int(headers.get(_CONTENT_LENGTH, 0)) > 0


def body_may_not_come(request: web.BaseRequest) -> bool:
    """Return whether the rest of a body may never come: its client waits for `100 Continue`, and
    the answer has come first."""
    return "Expect" in request.headers and not request.content.is_eof()


def refuse_framing(request: web.BaseRequest) -> None:
    """Refuse a transfer coding other than `chunked`, that with HTTP/1.0, and a length that no body
    has. The body cannot be told from the next request then, so the connection is to be closed.
    Raises InvalidRequest."""
    if has_lost_body(request.headers, request.content):
        raise InvalidRequest(f"header Content-Length {request.content_length}: no body is as long")
    codings = request.headers.getall(TRANSFER_ENCODING, None)
    if codings is None:
        return
    # The parser takes an empty one for none.
    coding = ",".join(codings)
    if coding.strip().lower() != "chunked":
        raise InvalidRequest(f"header Transfer-Encoding {coding!r}: only chunked is supported")
    if request.version < HttpVersion11:
        raise InvalidRequest("header Transfer-Encoding: HTTP/1.0 has none; send Content-Length")
