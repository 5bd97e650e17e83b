"""Who may do what: the tokens of `--token-file`, and what a request must show.

A line of the file is a name, scopes, queues if not every one, and the token or its SHA-256:

    # name     scopes       queues          token
    till       write        orders,mail-*   Hj0vVt9xkq3mP2sYw8LrBg
    janitor    read,write   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bcc0ae3e8f5b5c7d6e5f4

Kept in memory are hashes alone. No error names a token, nor is one ever logged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from mq.config import MAX_TOKEN_FILE_BYTES, SHORT_TOKEN_CHARACTERS
from mq.errors import ExitCode, Forbidden, InvalidRequest, StartRefused, Unauthorized
from mq.names import QueueName

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,80}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,1024}=*")
"""As RFC 6750, section 2.1, writes a bearer token."""

_HASH_PREFIX = "sha256:"
_HASH = re.compile(r"[0-9a-f]{64}")
_FOR_OTHERS = 0o007
_GROUP_WRITES = 0o020


class Scope(StrEnum):
    """What a token is for. None of them includes another."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Token(NamedTuple):
    """One line. `queues` matches the names it is for; None stands for every queue."""

    name: str
    scopes: frozenset[Scope]
    queues: re.Pattern[str] | None
    digest: bytes
    is_short: bool = False

    def require(self, scope: Scope, queue: QueueName | None) -> None:
        """Raises Forbidden if this token is not for that; None asks for every queue."""
        if scope not in self.scopes:
            raise Forbidden(
                f"token {self.name} has no scope {scope}, which this request needs", scope
            )
        if self.queues is not None and (queue is None or not self.queues.fullmatch(queue)):
            raise Forbidden(f"token {self.name} is not for {queue or 'every queue'}", scope)


class Tokens:
    """The tokens of a file. Raises StartRefused if it cannot be read, or is not in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens = read_tokens(path)

    @property
    def short(self) -> list[str]:
        """The names of tokens that are short enough to be guessed."""
        return [token.name for token in self._tokens if token.is_short]

    def reload(self) -> int:
        """Read the file again; returns how many tokens there are. The old ones stay if this raises
        StartRefused."""
        self._tokens = read_tokens(self._path)
        return len(self._tokens)

    def authenticate(self, request: web.BaseRequest) -> Token:
        """The token that a request brings. Raises Unauthorized, or InvalidRequest for two."""
        values = request.headers.getall("Authorization", [])
        if len(values) > 1:
            raise InvalidRequest("header Authorization stands twice; give it once")
        if not values:
            raise Unauthorized("send a token as the header Authorization: Bearer TOKEN")
        scheme, _, text = values[0].partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("header Authorization: only the scheme Bearer is known")
        found = self._find(text.strip())
        if found is None:
            raise Unauthorized("this token is not known here", is_invalid=True)
        return found

    def _find(self, text: str) -> Token | None:
        """Compares with every token, each time in the same time."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file. Raises StartRefused, which names the line but not what is in it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & (_FOR_OTHERS | _GROUP_WRITES):
                raise _refusal(
                    path, "others may read it, or its group may change it; chmod 600, or 640"
                )
            data = file.read(MAX_TOKEN_FILE_BYTES + 1)
    except OSError as error:
        raise _refusal(path, f"{error.strerror}; the server must be able to read it") from error
    if len(data) > MAX_TOKEN_FILE_BYTES:
        raise _refusal(path, f"it has more than {MAX_TOKEN_FILE_BYTES} bytes")
    tokens: list[Token] = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            token = _parse(words)
            _refuse_twice(token, tokens)
        except ValueError as error:
            raise _refusal(path, f"line {number}: {error}") from None
        tokens.append(token)
    if not tokens:
        raise _refusal(path, "it has no token, so nobody could do anything; write a line for each")
    return tokens


def _parse(words: list[str]) -> Token:
    """Raises ValueError."""
    if not 3 <= len(words) <= 4:
        raise ValueError("a line is NAME SCOPES [QUEUES] TOKEN, with spaces between them alone")
    name, scopes, queues, secret = words[0], words[1], [*words[2:-1], "*"][0], words[-1]
    if not _NAME.fullmatch(name):
        raise ValueError("a name has 1 to 64 letters, digits, '_', '.' or '-'")
    if not set(scopes.split(",")) <= set(Scope):
        raise ValueError(f"scopes are {', '.join(Scope)}, with commas between them alone")
    return Token(
        name,
        frozenset(map(Scope, scopes.split(","))),
        _parse_queues(queues),
        _parse_secret(secret),
        not secret.startswith(_HASH_PREFIX) and len(secret) < SHORT_TOKEN_CHARACTERS,
    )


def _parse_queues(text: str) -> re.Pattern[str] | None:
    patterns = text.split(",")
    if not all(map(_PATTERN.fullmatch, patterns)):
        raise ValueError(
            "queues are names with commas between them alone, in which * stands for anything"
        )
    if "*" in patterns:
        return None
    return re.compile("|".join(re.escape(each).replace(r"\*", ".*") for each in patterns))


def _parse_secret(text: str) -> bytes:
    """The token's hash."""
    if text.startswith(_HASH_PREFIX):
        digest = text.removeprefix(_HASH_PREFIX)
        if not _HASH.fullmatch(digest):
            raise ValueError("behind sha256: stand 64 hexadecimal digits in lower case")
        return bytes.fromhex(digest)
    if not _TOKEN.fullmatch(text):
        raise ValueError(
            "a token has up to 1024 letters, digits, '-', '.', '_', '~', '+', '/'; at its end '='"
        )
    return hashlib.sha256(text.encode()).digest()


def _refuse_twice(token: Token, others: list[Token]) -> None:
    for other in others:
        if other.name == token.name:
            raise ValueError(f"name {token.name} stands twice")
        if other.digest == token.digest:
            raise ValueError(f"{token.name} has the token of {other.name}; give it one of its own")


def _refusal(path: Path, what: str) -> StartRefused:
    return StartRefused(ExitCode.USAGE, f"token file {path}: {what}")
