"""The keys that signatures are verified with: each token of the token file, by its name.

An access key is the name of a token, and its secret the token. A line that has only the SHA-256 of
a token lets nobody in here.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import structlog

from mq.daemon.token_file import read_lines
from mq.web.tokens import KnownToken
from mq_sqs.faults import INVALID_CLIENT_TOKEN_ID, SQSError

log = structlog.get_logger(__name__)

_MAX_DERIVED = 64


class SigningKey:
    """The key of one token. Without a `secret` it signs nothing."""

    def __init__(self, token: KnownToken, secret: str | None) -> None:
        self.token = token
        self._secret = secret
        self._derived: dict[tuple[str, str, str], bytes] = {}

    @property
    def can_sign(self) -> bool:
        return self._secret is not None

    def sign(self, text: bytes, day: str, region: str, service: str) -> str:
        """Return the signature of version 4 in hexadecimal."""
        return hmac.new(self._derive(day, region, service), text, hashlib.sha256).hexdigest()

    def _derive(self, day: str, region: str, service: str) -> bytes:
        """Return the key for a day, a region and a service. It is kept for the next request."""
        scope = (day, region, service)
        found = self._derived.get(scope)
        if found is not None:
            return found
        assert self._secret is not None
        key = f"AWS4{self._secret}".encode()
        for each in (*scope, "aws4_request"):
            key = hmac.digest(key, each.encode(), "sha256")
        if len(self._derived) >= _MAX_DERIVED:
            self._derived.clear()
        self._derived[scope] = key
        return key


class SigningKeys:
    """The keys of a file. Raises StartRefused if it is not in order, and warns of a line that has
    only a hash of its token."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reload()

    def reload(self) -> None:
        """Read the file again. The old keys stay if this raises StartRefused. Blocking."""
        lines = read_lines(self._path)
        for line in lines:
            if line.text is None:
                log.warning(
                    "a SHA-256 cannot verify signatures; write the token itself",
                    file=str(self._path), line=line.number, token=line.token.name,
                )  # fmt: skip
        self._keys = {line.token.name: SigningKey(line.token, line.text) for line in lines}

    def require(self, name: str) -> SigningKey:
        """Return the key of that name. Raises SQSError if it is not known, or cannot sign."""
        key = self._keys.get(name)
        if key is None:
            raise SQSError(
                INVALID_CLIENT_TOKEN_ID, "The security token included in the request is invalid."
            )
        if not key.can_sign:
            raise SQSError(
                INVALID_CLIENT_TOKEN_ID,
                f"The security token included in the request is invalid: of {name} the token file "
                "has only the SHA-256, which cannot verify a signature.",
            )
        return key
