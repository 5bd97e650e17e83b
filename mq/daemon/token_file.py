"""The file of `--token-file`, read at start and on SIGHUP. `mq.web.tokens` says what a token
grants.

A line has a name, scopes, queues unless it is for all of them, and the token or its SHA-256:

    # name     scopes       queues          token
    till       write        orders,mail-*   Hj0vVt9xkq3mP2sYw8LrBg
    janitor    read,write   *   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bcc0ae3e8f5b5c7d6

Only hashes are kept in memory, except by `read_lines`. No error names a token, and none is ever
logged.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from mq.config import MAX_TOKEN_FILE_BYTES, MIN_TOKEN_CHARACTERS
from mq.errors import ExitCode, StartRefused
from mq.web.tokens import KnownToken, Scope, Tokens

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,85}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,1024}=*")
"""A bearer token as RFC 6750, section 2.1, writes it."""

_BLANK = " \t\r"
_BLANKS = re.compile(f"[{_BLANK}]+")
"""What separates words. No other space does, and no other character ends a line: what an editor
shows as one comment must not be a comment and a token."""

_HASH_PREFIX = "sha256:"
_HASH = re.compile(r"[0-9a-f]{64}")
_HASH_OF_NOTHING = hashlib.sha256().digest()
_WORDS = re.compile(r"[a-z_.-]+")
_FOR_OTHERS = 0o007
_GROUP_WRITES = 0o020


class TokenFile:
    """A token file and the `tokens` that it held when it was last read. Raises StartRefused if it
    cannot be read, or is not in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.tokens = Tokens(read_tokens(path))

    def reload(self) -> None:
        """Read the file again. The old tokens stay if this raises StartRefused."""
        self.tokens.replace(read_tokens(self._path))


class TokenLine(NamedTuple):
    """A line of the file, by its number from 1 on. `text` is the token itself; None where the line
    has only its SHA-256."""

    number: int
    token: KnownToken
    text: str | None


def read_tokens(path: Path) -> list[KnownToken]:
    """Return the tokens of a file. Raises StartRefused, which names the line but not its
    content."""
    return [line.token for line in read_lines(path)]


def read_lines(path: Path) -> list[TokenLine]:
    """Return the tokens with their texts, for a server that verifies signatures. Raises
    StartRefused, as `read_tokens` does."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            _check_owner_and_mode(path, os.fstat(file.fileno()))
            data = file.read(MAX_TOKEN_FILE_BYTES + 1)
    except OSError as error:
        raise _refusal(path, f"{error.strerror}; the server must be able to read it") from error
    if len(data) > MAX_TOKEN_FILE_BYTES:
        raise _refusal(path, f"it has more than {MAX_TOKEN_FILE_BYTES} bytes")
    lines: list[TokenLine] = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        words = _BLANKS.split(line.strip(_BLANK))
        if not words[0] or words[0].startswith("#"):
            continue
        try:
            token = _parse(words)
            _refuse_twice(token, [each.token for each in lines])
        except ValueError as error:
            raise _refusal(path, f"line {number}: {error}") from None
        text = None if words[-1].startswith(_HASH_PREFIX) else words[-1]
        lines.append(TokenLine(number, token, text))
    if not lines:
        raise _refusal(
            path, "it has no token, so no request would be allowed; write a line for each token"
        )
    return lines


def _without_waiting(path: str, flags: int) -> int:
    """Open without waiting. It refuses a pipe: one without a writer would block the start and every
    reload."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_owner_and_mode(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(path, "it is not a regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise _refusal(
            path,
            f"it belongs to the user {status.st_uid}, who can write any token into it; chown it",
        )
    if status.st_mode & (_FOR_OTHERS | _GROUP_WRITES):
        raise _refusal(path, "others may read it, or its group may change it; chmod 600, or 640")


def _parse(words: list[str]) -> KnownToken:
    """Parse the words of a line. Raises ValueError."""
    if not 3 <= len(words) <= 4:
        raise ValueError("a line is NAME SCOPES [QUEUES] TOKEN, separated only by spaces")
    name, scopes, queues, secret = words[0], words[1], [*words[2:-1], "*"][0], words[-1]
    if not _NAME.fullmatch(name):
        raise ValueError("a name has 1 to 64 letters, digits, '_', '.' or '-'")
    if not set(scopes.split(",")) <= set(Scope):
        raise ValueError(f"scopes are {', '.join(Scope)}, separated only by commas")
    return KnownToken(
        name,
        frozenset(map(Scope, scopes.split(","))),
        _parse_queues(queues),
        _parse_secret(secret) if len(words) == 4 else _parse_secret_alone(secret),
    )


def _parse_queues(text: str) -> re.Pattern[str] | None:
    patterns = text.split(",")
    if not all(map(_PATTERN.fullmatch, patterns)):
        raise ValueError("queues are names separated only by commas, in which * matches anything")
    if "*" in patterns:
        return None
    # It takes no longer for many `*` than for one: see fnmatch.
    return re.compile("|".join(map(fnmatch.translate, patterns)))


def _parse_secret_alone(text: str) -> bytes:
    """Hash the token of a line that names no queues. Its last word may be queues by mistake, and
    not a token."""
    digest = _parse_secret(text)
    if _WORDS.fullmatch(text):
        raise ValueError(
            "the last word has neither a digit nor a capital letter: is the token missing? If that "
            "is the token write * before it, for every queue"
        )
    return digest


def _parse_secret(text: str) -> bytes:
    """Return the hash of a token, or the hash that is written in its place."""
    if text.startswith(_HASH_PREFIX):
        digest = text.removeprefix(_HASH_PREFIX)
        if not _HASH.fullmatch(digest):
            raise ValueError("sha256: must be followed by 64 lower-case hexadecimal digits")
        if bytes.fromhex(digest) == _HASH_OF_NOTHING:
            raise ValueError("that is the SHA-256 of an empty text; give that of a token")
        return bytes.fromhex(digest)
    if not _TOKEN.fullmatch(text):
        raise ValueError(
            "a token has up to 1024 letters, digits, '-', '.', '_', '~', '+', '/'; at its end '='"
        )
    if len(text) < MIN_TOKEN_CHARACTERS:
        raise ValueError(
            f"a token has at least {MIN_TOKEN_CHARACTERS} characters; the last word of the line is "
            "shorter. Is the token missing?"
        )
    return hashlib.sha256(text.encode()).digest()


def _refuse_twice(token: KnownToken, others: list[KnownToken]) -> None:
    for other in others:
        if other.name == token.name:
            raise ValueError(f"name {token.name} is given twice")
        if other.digest == token.digest:
            raise ValueError(f"{token.name} has the token of {other.name}; give it one of its own")


def _refusal(path: Path, what: str) -> StartRefused:
    return StartRefused(ExitCode.USAGE, f"token file {path}: {what}")
