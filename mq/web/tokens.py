"""Tokens: what one grants, and what a request must show. `mq.daemon.token_file` reads the file they
come from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from mq.config import MIN_TOKEN_CHARACTERS
from mq.errors import Forbidden, InvalidRequest, Unauthorized
from mq.names import QueueName
from mq.web.parameters import HEADER_SPACE, Head


class Scope(StrEnum):
    """What a token may do. No scope includes another."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class KnownToken(NamedTuple):
    """A known token. `queues` matches the names of the queues that it is for; None means every
    queue. `digest` is the SHA-256 of its text."""

    name: str
    scopes: frozenset[Scope]
    queues: re.Pattern[str] | None
    digest: bytes

    def require(self, scope: Scope, queue: QueueName | None) -> None:
        """Raise Forbidden if this token is not for that; None asks for every queue."""
        if scope not in self.scopes:
            raise Forbidden(
                f"token {self.name} has no scope {scope}, which this request needs", scope
            )
        if not self.is_for(queue):
            raise Forbidden(f"token {self.name} is not for {queue or 'every queue'}", scope)

    def is_for(self, queue: QueueName | None) -> bool:
        return self.queues is None or (
            queue is not None and self.queues.fullmatch(queue) is not None
        )


class Tokens:
    """The tokens that are known now. Only their hashes are kept here."""

    def __init__(self, tokens: Sequence[KnownToken]) -> None:
        self.replace(tokens)

    def replace(self, tokens: Sequence[KnownToken]) -> None:
        """Accept these tokens from the next request on, and no others."""
        self._by_digest = {each.digest: each for each in tokens}

    def authenticate(self, request: Head) -> KnownToken:
        """Return the token that a request brings. Raises Unauthorized, or InvalidRequest for
        two."""
        values = request.headers.getall("Authorization", [])
        if len(values) > 1:
            raise InvalidRequest("header Authorization is given twice; give it once")
        if not values:
            raise Unauthorized("send a token as the header Authorization: Bearer TOKEN")
        scheme, _, text = values[0].partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("header Authorization: only the scheme Bearer is known")
        text = text.strip(HEADER_SPACE)
        # A hash in the file does not say how long its token is.
        found = self._find(text) if len(text) >= MIN_TOKEN_CHARACTERS else None
        if found is None:
            raise Unauthorized("this token is not known here", is_invalid=True)
        return found

    def _find(self, text: str) -> KnownToken | None:
        """Return the token with that text, or None. How long it takes tells something of a digest
        at most, and nobody can choose a text by that."""
        return self._by_digest.get(hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest())
