"""The address of a server, and a connection to it, with the standard library alone."""

from __future__ import annotations

import errno
import io
import ipaddress
import os
import re
import socket
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, RemoteDisconnected
from math import inf
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

from mq.client import arguments
from mq.config import CHUNK_BYTES, DEFAULT_URL, KIB

CONNECT_SECONDS = 10.0
"""How long a client waits for a connection."""

_LEAST_CONNECT_SECONDS = 2.0
"""How long it waits for one of several addresses at least: a SYN that is lost is sent again after a
second."""

IDLE_SECONDS = 60.0
"""A connection that was idle for this time is not used again: servers close theirs a bit later."""

FRESH_SECONDS = 1.0
"""A request that must not be sent twice takes no connection that was idle for this time: its server
may be closing it at this moment."""

SLOWEST_BYTES_PER_SECOND = 64 * KIB
"""A client gives up a body that is sent more slowly than this."""

_ONE_PIECE_BYTES = 64 * KIB
"""A body of at most this size is sent in one piece with its head."""

_HOST = re.compile(r"[^\x00-\x20\x7f]+")
_PATH = re.compile(r"[!-~]*")
_INTERIM = range(102, 200)
"""The statuses of answers that another one follows on the same connection (RFC 9110, section 15.2).
Taken for the answer, one would leave the real one to the next request."""
_NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL",
     "PACKET_LENGTH_TOO_LONG"}
)  # fmt: skip
"""What OpenSSL, depending on its version, says about plain text where TLS should begin."""

_FORMS = "write it like http://HOST:PORT, https://HOST:PORT or unix:/PATH/TO/SOCKET"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server. `host` and `port` are set even if the connection goes to
    `socket_path`, a unix socket. `prefix` precedes every path. `tls` is None for plain HTTP."""

    url: str
    host: str
    port: int
    prefix: str
    socket_path: str | None
    tls: ssl.SSLContext | None

    @property
    def is_readable_on_the_way(self) -> bool:
        """Whether what is sent there passes over a network as plain text."""
        return self.can_hang_up and not _is_this_machine(self.host)

    @property
    def can_hang_up(self) -> bool:
        """Whether a client that has ended its direction still gets what was written before, and the
        server knows that it did. TLS drops it. On a unix socket, a client that has read it and
        closed looks like one that is gone."""
        return self.tls is None and self.socket_path is None


def parse_url(
    url: str | None,
    socket_path: str | os.PathLike[str] | None,
    ca_file: str | os.PathLike[str] | None,
) -> ServerAddress:
    """Parse the address. Without a URL or a socket the variable MQ_URL applies, and without that
    the server of this machine.

    Raises ValueError for a malformed URL, TypeError, and OSError for a `ca_file`.
    """
    if url is None:
        url = "http://mq" if socket_path is not None else os.environ.get("MQ_URL") or DEFAULT_URL
    arguments.text("url", url)
    arguments.path("socket", socket_path)
    arguments.path("ca_file", ca_file)
    text = url.rstrip("/")
    if text.startswith("unix:"):
        text, socket_path = "http://mq", socket_path or text.removeprefix("unix:")
    try:
        parts = urlsplit(text)
        if parts.scheme == "http+unix" and not parts.path:
            socket_path = unquote(parts.netloc)
            parts = urlsplit("http://mq")
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        raise _not_an_address(url) from None
    is_of_http = parts.scheme in ("http", "https") and _HOST.fullmatch(host) is not None
    is_of_http = is_of_http and _PATH.fullmatch(parts.path) is not None
    if not is_of_http or port == 0 or socket_path == "" or parts.query or parts.fragment:
        raise _not_an_address(url)
    if parts.username is not None:
        raise ValueError("the user in a URL is not sent; give a token instead")
    is_tls = parts.scheme == "https"
    tls = _trusting(ca_file) if is_tls else None
    usual_port = 443 if is_tls else 80
    path = None if socket_path is None else os.fspath(socket_path)
    return ServerAddress(url, host, port or usual_port, parts.path, path, tls)


def _trusting(ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext:
    """Return a context that trusts these certificates. The errors of `ssl` do not name the file."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise OSError(errno.EINVAL, "no certificates in PEM", ca_file) from error
    except OSError as error:
        error.filename = ca_file
        raise


def _not_an_address(url: str) -> ValueError:
    return ValueError(f"{url!r} is not the address of a server; {_FORMS}")


def _is_this_machine(host: str) -> bool:
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_unspecified


def connection_to(address: ServerAddress) -> HTTPConnection:
    """Return a connection, which is not connected yet. An answer whose head breaks off raises
    ConnectionResetError."""
    connection: HTTPConnection
    if address.socket_path is not None:
        connection = _UnixConnection(address.socket_path)
    elif address.tls is not None:
        connection = _TLSConnection(
            address.host, address.port, context=address.tls, blocksize=CHUNK_BYTES
        )
    else:
        connection = _TCPConnection(address.host, address.port, blocksize=CHUNK_BYTES)
    connection.response_class = _Response
    return connection


def reason_of(error: Exception) -> str:
    """Return why there is no answer, in a few words."""
    if _is_not_tls(error):
        return "it does not speak TLS; write http:// in place of https:// if you mean it"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _is_not_tls(error: Exception) -> bool:
    return isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS


def is_refused_handshake(error: Exception) -> bool:
    """Return whether a TLS handshake failed because the two sides do not match, and not because one
    went away."""
    return isinstance(error, ssl.SSLError) and not isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    )


def has_closed_unheard(error: Exception) -> bool:
    """Return whether a server closed a connection without a word."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | RemoteDisconnected):
        return True
    return isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)


class _WholeLines(io.BufferedReader):
    _has_begun = False
    give_up_at = inf
    """When no line is read any more, by `monotonic`."""

    def readline(self, size: int | None = -1, /) -> bytes:
        if monotonic() > self.give_up_at:
            raise TimeoutError("timed out")
        line = super().readline(size)
        if size != 0 and not line.endswith(b"\n"):
            if not line and not self._has_begun:
                raise RemoteDisconnected("the connection was closed without an answer")
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        self._has_begun = True
        return line


class _Response(HTTPResponse):
    """Raises an error for a head that breaks off, which http.client takes for one that ends there,
    and passes over interim answers, of which http.client knows only 100. However many come, they
    give the answer no more time than its first byte has."""

    def __init__(self, sock: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        self.fp = self._lines = _WholeLines(self.fp.detach())
        self._lines.give_up_at = monotonic() + (sock.gettimeout() or inf)

    def begin(self) -> None:
        super().begin()
        while self.status in _INTERIM:
            # It reads a head only while there is none.
            vars(self)["headers"] = None
            super().begin()
        self._lines.give_up_at = inf


class _Connection(HTTPConnection):
    """Sends a small body in one piece with its head, which spares both sides a system call."""

    _small_body = b""

    def endheaders(self, message_body: Any = None, *, encode_chunked: bool = False) -> None:
        if isinstance(message_body, bytes) and len(message_body) <= _ONE_PIECE_BYTES:
            self._small_body, message_body = message_body, None
        super().endheaders(message_body, encode_chunked=encode_chunked)

    def send(self, data: Any) -> None:
        body, self._small_body = self._small_body, b""
        super().send(data + body if body else data)


class _TCPConnection(_Connection):
    def connect(self) -> None:
        self.sock = _connected(self.host, self.port, self.timeout)
        self.sock.settimeout(self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _TLSConnection(HTTPSConnection, _TCPConnection):
    """What it speaks TLS over is connected by the second of these."""


def _connected(host: str, port: int, seconds: float | None) -> socket.socket:
    """Return a connection to the first address of a host that takes one. The addresses share the
    time: one that does not answer has used up its own part only. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    give_up_at = inf if seconds is None else monotonic() + seconds
    failure = OSError(f"host {host} has no address")
    for at, (family, kind, protocol, _, address) in enumerate(found):
        left = give_up_at - monotonic()
        if left <= 0:
            break
        share = min(max(left / (len(found) - at), _LEAST_CONNECT_SECONDS), left)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(None if share == inf else share)
            sock.connect(address)
            return sock
        except OSError as error:
            failure = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure


class _UnixConnection(_Connection):
    def __init__(self, path: str) -> None:
        super().__init__("mq", blocksize=CHUNK_BYTES)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
