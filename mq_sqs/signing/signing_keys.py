"""The keys that signatures are verified with: each token of the token file, by its name.

An access key is the name of a token, and its secret the token. A line that has only the SHA-256 of
a token lets nobody in here.
"""

from __future__ import annotations

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
        self._derived: dict[str, hmac.HMAC] = {}

    @property
    def can_sign(self) -> bool:
        return self._secret is not None

    def begin(self, text: bytes, scope: str) -> hmac.HMAC:
        """Return the HMAC of a text, which may go on: in hexadecimal it is the signature of version
        4. The scope is `DAY/REGION/SERVICE/aws4_request`."""
        begun = (self._derived.get(scope) or self._derive(scope)).copy()
        begun.update(text)
        return begun

    def _derive(self, scope: str) -> hmac.HMAC:
        """Return the HMAC of a scope before any text; a copy of it costs less than a new one."""
        assert self._secret is not None
        key = f"AWS4{self._secret}".encode()
        for each in scope.split("/"):
            key = hmac.digest(key, each.encode(), "sha256")
        if len(self._derived) >= _MAX_DERIVED:
            self._derived.clear()
        found = self._derived[scope] = hmac.new(key, digestmod="sha256")
        return found


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
