"""The addresses of the servers of a root, and how a job talks to them."""

from __future__ import annotations

from dataclasses import dataclass

from mq.config import CLIENT_RETRY_SECONDS

LEASE_SECONDS = 600.0
"""How long fetched messages are hidden until they are staged and removed. That is far longer than
it takes, so that a job which dies in between can decide about them when it is started again.
Messages that it had fetched and not staged return after this time."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of servers of one root. Files are read where the request is made: by the
    driver, and by tasks of batch reads and writes. No token is in here, because Spark shows options
    in its plans."""

    urls: tuple[str, ...]
    token_file: str | None = None
    ca_file: str | None = None
    lease_seconds: float = LEASE_SECONDS
    retry_seconds: float = CLIENT_RETRY_SECONDS
