"""Where a server is, and what it asks of those who come: URL, token, TLS."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mq.client.errors import UnexpectedAnswer
from mq.config import DEFAULT_URL

_FORMS = "write it like http://HOST:PORT, https://HOST:PORT or unix:/PATH/TO/SOCKET"


@dataclass(frozen=True, slots=True)
class Address:
    """`host` and `port` also where `socket_path`, a unix socket, is what is connected to. `prefix`
    stands before every path. `tls` is None for plain HTTP."""

    url: str
    host: str
    port: int
    prefix: str
    socket_path: str | None
    tls: ssl.SSLContext | None


class Token:
    """A bearer token, given as such or in a file that holds nothing else.

    Raises ValueError if a file holds anything else, and OSError.
    """

    def __init__(self, token: str | None, token_file: str | os.PathLike[str] | None) -> None:
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are two ways to give a token; choose one")
        if token is None and token_file is None:
            token_file = os.environ.get("MQ_TOKEN_FILE") or None
        self._file = None if token_file is None else Path(token_file)
        self._value = token if self._file is None else _read(self._file)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self._value is None else {"Authorization": f"Bearer {self._value}"}

    def refresh(self) -> bool:
        """Read the file again; whether it holds another token now."""
        before = self._value
        if self._file is not None:
            self._value = _read(self._file)
        return self._value != before


def _read(path: Path) -> str:
    words = path.read_text().split()
    if len(words) != 1:
        # A server's file of tokens has names and scopes too.
        raise ValueError(f"token file {path}: it holds one token and nothing else")
    return words[0]


def untrusted(address: Address, error: Exception) -> UnexpectedAnswer:
    """Trying again would not help."""
    why = getattr(error, "verify_message", error)
    return UnexpectedAnswer(
        f"the certificate of {address.url} is not trusted: {why}; give its issuer's as ca_file"
    )


def parse_url(
    url: str | None,
    socket_path: str | os.PathLike[str] | None,
    ca_file: str | os.PathLike[str] | None,
) -> Address:
    """Without a URL or socket the variable MQ_URL counts, without that the server of this machine.

    Raises ValueError for what is no URL of a server, and OSError for a `ca_file`.
    """
    if url is None:
        url = "http://mq" if socket_path is not None else os.environ.get("MQ_URL") or DEFAULT_URL
    text = url.rstrip("/")
    if text.startswith("unix:"):
        text, socket_path = "http://mq", socket_path or text.removeprefix("unix:")
    parts = urlsplit(text)
    if parts.scheme == "http+unix" and not parts.path:
        text, socket_path = "http://mq", unquote(parts.netloc)
        parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no address of a server; {_FORMS}")
    if parts.username is not None:
        raise ValueError("a user in the URL is not sent; give a token")
    is_tls = parts.scheme == "https"
    tls = ssl.create_default_context(cafile=ca_file) if is_tls else None
    usual_port = 443 if is_tls else 80
    path = None if socket_path is None else os.fspath(socket_path)
    return Address(url, host, port or usual_port, parts.path, path, tls)
