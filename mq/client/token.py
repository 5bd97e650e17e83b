"""The token that a server asks for."""

from __future__ import annotations

import os
from pathlib import Path


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
