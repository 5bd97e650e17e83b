"""From a URL to a connection: `http://`, `https://`, or `unix:` with the path of a socket."""

from __future__ import annotations

import re
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mq.config import CHUNK_BYTES, CTL_TIMEOUT_SECONDS, DEFAULT_ADMIN
from mq.errors import CommandFailed, ExitCode

_UNIX = "unix:"
_TOKEN = re.compile(r"[!-~]+")
_MAX_TOKEN_FILE_BYTES = 8192


class Credentials(NamedTuple):
    """What a server is shown, and by whom its certificate must be signed; None for the system's
    own authorities."""

    token: str | None = None
    cacert: Path | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def read_token(path: Path) -> str:
    """The one token of a file. Raises CommandFailed, which does not show what is in it."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_TOKEN_FILE_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"token file {path}: {error.strerror or error}"
        ) from error
    return check_token(text, f"token file {path}")


def check_token(text: str, origin: str) -> str:
    """Raises CommandFailed if it cannot stand in a header."""
    if not _TOKEN.fullmatch(text):
        raise CommandFailed(
            ExitCode.USAGE, f"{origin}: there is not one token in it, of printable characters alone"
        )
    return text


def connect(url: str, cacert: Path | None) -> HTTPConnection:
    """Nothing is sent yet. Raises CommandFailed."""
    try:
        if url.startswith(_UNIX):
            return _UnixConnection(_path_of(url))
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if not host or parts.query or parts.fragment:
            raise ValueError
        if parts.scheme == "http":
            return HTTPConnection(host, port, CTL_TIMEOUT_SECONDS, blocksize=CHUNK_BYTES)
        if parts.scheme == "https":
            return HTTPSConnection(
                host, port, timeout=CTL_TIMEOUT_SECONDS, blocksize=CHUNK_BYTES,
                context=_trusting(cacert),
            )  # fmt: skip
        raise ValueError
    except (ValueError, HTTPException):
        raise CommandFailed(
            ExitCode.USAGE,
            f"{url!r} is no address of a server; write it like http://HOST:PORT or unix:/PATH",
        ) from None


def prefix_of(url: str) -> str:
    """What stands in front of every path."""
    return "" if url.startswith(_UNIX) else urlsplit(url).path


def admin_url(url: str, admin: str | None) -> str:
    """The admin listener speaks TLS if the server does; beside a unix socket it is on this
    machine."""
    if url.startswith(_UNIX):
        return f"http://{admin or DEFAULT_ADMIN}"
    parts = urlsplit(url)
    if admin is None:
        host = parts.hostname or ""
        admin = f"{f'[{host}]' if ':' in host else host}:{DEFAULT_ADMIN.port}"
    return f"{parts.scheme}://{admin}"


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CTL_TIMEOUT_SECONDS, blocksize=CHUNK_BYTES)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _path_of(url: str) -> str:
    """Of `unix:/run/mq.sock` and of `unix:///run/mq.sock`. Raises ValueError."""
    path = url.removeprefix(_UNIX)
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path.startswith("/"):
        raise ValueError
    return path


def _trusting(cacert: Path | None) -> ssl.SSLContext:
    """Raises CommandFailed."""
    try:
        return ssl.create_default_context(cafile=None if cacert is None else str(cacert))
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"certificates {cacert}: {error.strerror or error}; name a file in PEM"
        ) from error
