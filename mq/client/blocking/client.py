"""`Client`: where a server is, and how to talk to it."""

from __future__ import annotations

import os
from typing import Self

from mq.client.arguments import queue_name
from mq.client.blocking.queue import Queue
from mq.client.blocking.session import Session
from mq.client.connection import parse_url
from mq.client.token import Token
from mq.config import CLIENT_RETRY_SECONDS, CLIENT_TIMEOUT_SECONDS


class Client:
    """A server of MQ, for threads. One client serves any number of them.

    `url` is http://HOST:PORT, https://HOST:PORT or unix:PATH, and `socket` the path of a unix
    socket. The default is MQ_URL, or http://127.0.0.1:8080. A token is given as `token`, or as the
    path of a file that holds it; the default is the file in MQ_CLIENT_TOKEN_FILE, or that in
    MQ_TOKEN_FILE if it holds one token. `ca_file` has the certificates to trust, in PEM, in place
    of the system's.

    `timeout_seconds` is how long the next bytes of an answer may take. `retry_seconds` is how long
    a request is sent again while no answer comes, or 503; 0 means that it is sent once.

    Making a client sends nothing. Raises ValueError for wrong arguments, and OSError for files.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout_seconds: float = CLIENT_TIMEOUT_SECONDS,
        retry_seconds: float = CLIENT_RETRY_SECONDS,
    ) -> None:
        address = parse_url(url, socket, ca_file)
        self._session = Session(
            address,
            Token(token, token_file, address),
            timeout_seconds,
            retry_seconds,
        )

    def queue(self, name: str) -> Queue:
        """Return a queue by its name, whether it exists or not. This sends nothing. Raises
        InvalidName."""
        return Queue(self._session, queue_name("name", name))

    def close(self) -> None:
        """Close all connections. Requests under way in other threads raise ClientError."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.address.url!r})"
