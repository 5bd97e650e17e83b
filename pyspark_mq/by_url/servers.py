"""Requests to one of several servers of a root: the first that answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Self, TypeVar

from mq.client import (
    Client,
    ClientError,
    Counts,
    Forbidden,
    NoAnswer,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from mq.client.retries import TOKEN_SECONDS, asked_pause_seconds
from mq.config import CLIENT_BACKOFF_SECONDS
from pyspark_mq.options.addresses import Addresses
from pyspark_mq.options.option_values import BadOption

T = TypeVar("T")

log = logging.getLogger("pyspark_mq")


_WAYS_OUT: dict[type[ClientError], str] = {
    NoAnswer: "option url: start mq there, or correct the address; option retrySeconds: how long "
    "to try again",
    Unavailable: "option retrySeconds: how long to try again",
    Unauthorized: "option tokenFile: name a file that holds a token which the server knows",
    Forbidden: "option tokenFile: name the file of a token that may do this with the queue",
    UnexpectedAnswer: "option url: it must be the address of a server of MQ",
}
_OF_CERTIFICATES = "option caFile: name the file with the certificates to trust, in PEM"


def _way_out(error: ClientError) -> str:
    if "certificate" in str(error):
        return _OF_CERTIFICATES
    return next(way for kind, way in _WAYS_OUT.items() if isinstance(error, kind))


def _client(url: str, addresses: Addresses) -> Client:
    return Client(url, token_file=addresses.token_file, ca_file=addresses.ca_file, retry_seconds=0)


class ServerChoice:
    """The servers at some addresses, asked one after the other until one answers. Threads may share
    it."""

    def __init__(self, addresses: Addresses) -> None:
        """Open clients for all addresses. This sends nothing. Raises BadOption for files."""
        self._retry_seconds = addresses.retry_seconds
        self._urls = addresses.urls
        try:
            self._clients = [_client(url, addresses) for url in addresses.urls]
        except (ValueError, OSError) as error:
            raise BadOption(f"option tokenFile or caFile: {error}") from None
        self._first = 0
        """Which one is asked first: the one that has answered."""

    def ask(self, request: Callable[[Client], T]) -> T:
        """Return what `request` returns for the first server that answers. It must be safe to
        repeat.

        If none answers, or all answer 503, it is repeated until `retry_seconds` are over, with
        pauses that are as long as one of the servers asks for; then the last error is raised. So it
        is for a moment if a token is refused, whose file may be just being written. Raises
        ClientError, which names the address and the option that may help.
        """
        try:
            return self._ask(request)
        except tuple(_WAYS_OUT) as error:
            error.args = (f"{error}; {_way_out(error)}",)
            raise

    def _ask(self, request: Callable[[Client], T]) -> T:
        started = time.monotonic()
        give_up_at = started + self._retry_seconds
        backoff, longest = CLIENT_BACKOFF_SECONDS
        while True:
            failures: list[ClientError] = []
            for _ in self._clients:
                asked = self._first
                try:
                    return self._ask_one(asked, request)
                except (NoAnswer, Unavailable, Unauthorized) as error:
                    waited = time.monotonic() - started
                    if isinstance(error, Unauthorized) and waited >= TOKEN_SECONDS:
                        raise
                    failures.append(error)
                    self._first = (asked + 1) % len(self._clients)
            pause = max(backoff, min(map(asked_pause_seconds, failures)))
            if time.monotonic() + pause >= give_up_at:
                raise failures[-1]
            log.warning("%s; trying again", failures[-1])
            time.sleep(pause)
            backoff = min(2 * backoff, longest)

    def _ask_one(self, asked: int, request: Callable[[Client], T]) -> T:
        try:
            return request(self._clients[asked])
        except ClientError as error:
            url = self._urls[asked]
            if url not in str(error):
                error.args = (f"{url}: {error}",)
            raise

    def counts(self, queue: str) -> Counts:
        """Return how many messages of a queue are in each state. Raises QueueNotFound and what
        `ask` raises."""
        return self.ask(lambda mq: mq.queue(queue).counts())

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
