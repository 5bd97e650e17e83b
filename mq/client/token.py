"""The token that a server asks for."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from mq.client import arguments
from mq.client.connection import ServerAddress
from mq.client.forking import start_anew_in_children
from mq.config import MAX_TOKEN_FILE_BYTES

log = logging.getLogger("mq.client")

_TOKEN = re.compile(r"[!-~]+")


class Refreshed(Enum):
    """The result of looking for another token."""

    ANOTHER = "another token"
    NOT_YET = "a file without a token, which may be in the middle of being written"
    NONE = "none"


class Token:
    """A bearer token, given as such or in a file that holds nothing else. For any number of
    threads.

    Raises ValueError if a file holds anything else, and OSError.
    """

    def __init__(
        self,
        token: str | None,
        token_file: str | os.PathLike[str] | None,
        address: ServerAddress,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        """Take the token, or its file. If neither is given, `variables` may name the file."""
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are two ways to give a token; choose one")
        if token is not None:
            arguments.text("token", token)
        arguments.path("token_file", token_file)
        if token is not None and not _TOKEN.fullmatch(token):
            raise ValueError("a token is printable ASCII characters without spaces")
        if token is None and token_file is None:
            token_file = variables.get("MQ_CLIENT_TOKEN_FILE") or _of_server(variables)
        self._file = None if token_file is None else Path(token_file)
        self._value = token if self._file is None else _read(self._file)
        self._exposed_to = address.host if address.is_readable_on_the_way else None
        self.start()
        start_anew_in_children(self)

    def start(self) -> None:
        self._lock = threading.Lock()

    def show(self) -> str | None:
        """Return the token for the next request. Warns once if others can read it on its way."""
        if self._value is not None and self._exposed_to is not None:
            with self._lock:
                host, self._exposed_to = self._exposed_to, None
            if host is not None:
                log.warning("the token goes to %s over plain http, where anyone on the way can "
                            "read it; use https", host)  # fmt: skip
        return self._value

    def refresh(self, refused: str | None) -> Refreshed:
        """Look for another token than `refused`, which a request carried. If there is none, the old
        one stays."""
        with self._lock:
            if self._value != refused:
                # Another request was refused before, and found it.
                return Refreshed.ANOTHER
            if self._file is None:
                return Refreshed.NONE
            try:
                self._value = _read(self._file)
            except (OSError, ValueError) as error:
                log.warning("the token was refused, and there is no other: %s", error)
                return Refreshed.NOT_YET
            return Refreshed.NONE if self._value == refused else Refreshed.ANOTHER


def _of_server(variables: Mapping[str, str]) -> str | None:
    """Return the file in MQ_TOKEN_FILE, if it holds a token and nothing else. For a server that
    variable names its file of tokens, with names and scopes; a client does not use that one."""
    path = variables.get("MQ_TOKEN_FILE")
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            is_one = len(file.read(MAX_TOKEN_FILE_BYTES).split()) <= 1
    except OSError:
        # The code that reads the file says what is wrong with it.
        return path
    return path if is_one else None


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _read(path: Path) -> str:
    with path.open("rb") as file:
        words = file.read(MAX_TOKEN_FILE_BYTES).decode("ascii", "replace").split()
    if len(words) != 1 or not _TOKEN.fullmatch(words[0]):
        # A server's file of tokens has names and scopes too.
        raise ValueError(f"token file {path}: it must hold one token and nothing else")
    return words[0]
