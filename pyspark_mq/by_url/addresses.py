"""Where the servers of a root are, and how a job talks to them."""

from __future__ import annotations

from dataclasses import dataclass

from mq.config import CLIENT_RETRY_SECONDS

LEASE_SECONDS = 600.0
"""How long what is fetched is hidden until it is staged and removed: far longer than that takes, so
that a job which dies in between can decide about it when it is started again. What it had fetched
and not staged returns after this time."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """`urls` are servers of one root. Files are read where the request is made: by the driver, and
    by tasks of batch reads and writes. It holds no token, as Spark shows options in its plans."""

    urls: tuple[str, ...]
    token_file: str | None = None
    ca_file: str | None = None
    lease_seconds: float = LEASE_SECONDS
    retry_seconds: float = CLIENT_RETRY_SECONDS
