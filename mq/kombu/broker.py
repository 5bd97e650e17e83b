"""The broker URL and the transport options: where the server is, and how to use it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mq.client.blocking.session import Session
from mq.client.connection import parse_url
from mq.client.token import Token
from mq.config import (
    CLIENT_RETRY_SECONDS,
    CLIENT_TIMEOUT_SECONDS,
    MAX_VISIBILITY_SECONDS,
    MAX_WAIT_SECONDS,
)

log = logging.getLogger("mq.kombu")

DEFAULT_PORT = 8080
_SHORTEST_VISIBILITY_SECONDS = 1.0
"""A lease is renewed over a network after a third of its length."""

OPTIONS = frozenset(
    {"visibility_timeout", "wait_time_seconds", "token", "token_file", "ca_file",
     "timeout_seconds", "retry_seconds", "queue_order_strategy"}
)  # fmt: skip
_OF_KOMBU = frozenset(
    {"body_encoding", "deadletter_queue", "errback", "interval_max", "interval_start",
     "interval_step", "max_retries", "polling_interval"}
)  # fmt: skip
"""Options that kombu and Celery read themselves; `polling_interval` has no effect here."""
_REFUSED = {
    "priority_steps": 'use a queue for each priority, and queue_order_strategy="priority"',
    "fanout_prefix": "MQ has no fanout exchanges",
    "fanout_patterns": "MQ has no fanout exchanges",
}

_QUEUE_ORDERS = ("round_robin", "priority", "sorted")
"""In which order several queues are asked for a message, as kombu names it: in turn, always the
first one first, or by name."""


class BrokerAddress(NamedTuple):
    """A URL that `mq.client` understands, and what else the connection needs."""

    url: str
    token: str | None
    ca_file: str | None


class MqOptions(NamedTuple):
    """The transport options. `visibility_seconds` None means the queue's own."""

    visibility_seconds: float | None
    wait_seconds: float | None
    token: str | None
    token_file: str | None
    ca_file: str | None
    timeout_seconds: float
    retry_seconds: float
    queue_order: str


def read_options(given: Mapping[str, Any]) -> MqOptions:
    """Read the transport options. Raises ValueError for an option that MQ cannot fulfil, and logs
    one that it does not know."""
    _require_known(given)
    visibility, wait = _visibility_seconds(given), _wait_seconds(given)
    timeout = _seconds(given, "timeout_seconds", CLIENT_TIMEOUT_SECONDS)
    retry = _seconds(given, "retry_seconds", CLIENT_RETRY_SECONDS)
    assert timeout is not None
    assert retry is not None
    return MqOptions(
        visibility, wait, given.get("token"), given.get("token_file"), given.get("ca_file"),
        timeout, retry, _queue_order(given),
    )  # fmt: skip


def _require_known(given: Mapping[str, Any]) -> None:
    for name in given:
        if name in _REFUSED:
            raise ValueError(f"transport option {name}: {_REFUSED[name]}")
        if name not in OPTIONS | _OF_KOMBU:
            log.warning(
                "transport option %s has no effect with MQ; it knows %s",
                name, ", ".join(sorted(OPTIONS)),
            )  # fmt: skip


def _queue_order(given: Mapping[str, Any]) -> str:
    order = given.get("queue_order_strategy", _QUEUE_ORDERS[0])
    if order not in _QUEUE_ORDERS:
        raise ValueError(
            f"transport option queue_order_strategy={order!r}: give {' or '.join(_QUEUE_ORDERS)}"
        )
    return str(order)


def _visibility_seconds(given: Mapping[str, Any]) -> float | None:
    seconds = _seconds(given, "visibility_timeout", None)
    if seconds is not None and seconds < _SHORTEST_VISIBILITY_SECONDS:
        raise ValueError(
            f"transport option visibility_timeout={seconds:g}: give at least "
            f"{_SHORTEST_VISIBILITY_SECONDS:g} second; leases are renewed while tasks run"
        )
    if seconds is not None and seconds > MAX_VISIBILITY_SECONDS:
        raise ValueError(
            f"transport option visibility_timeout={seconds:g}: give up to "
            f"{MAX_VISIBILITY_SECONDS} seconds"
        )
    return seconds


def _wait_seconds(given: Mapping[str, Any]) -> float | None:
    seconds = _seconds(given, "wait_time_seconds", None)
    if seconds is not None and not 0 < seconds <= MAX_WAIT_SECONDS:
        raise ValueError(
            f"transport option wait_time_seconds={seconds:g}: give more than 0, up to "
            f"{MAX_WAIT_SECONDS:g} seconds"
        )
    return seconds


def address_of(client: Any) -> BrokerAddress:
    """Return where `client`, a `kombu.Connection`, connects to. Raises ValueError."""
    if "://" in (client.hostname or ""):
        # kombu leaves what follows `mq+` as it is.
        scheme, host, port, prefix, user, password = _split(client.hostname)
    else:
        scheme, host, port = "http", client.hostname or "localhost", client.port
        prefix = (client.virtual_host or "").strip("/")
        user, password = client.userid, client.password
    if user and not password:
        raise ValueError(
            "a broker URL with a user and no password: write the token after a colon, as in "
            "mq://:TOKEN@HOST:PORT; kombu shows what precedes it in logs"
        )
    ca_file = None
    if client.ssl:
        scheme, ca_file = "https", _ca_file(client.ssl)
    literal = f"[{host}]" if ":" in host and not host.startswith("[") else host
    path = f"/{quote(prefix)}" if prefix else ""
    url = f"{scheme}://{literal}:{port or DEFAULT_PORT}{path}"
    return BrokerAddress(url, password or None, ca_file)


def open_session(address: BrokerAddress, options: MqOptions, retry_seconds: float) -> Session:
    """Open a session, which sends nothing yet. Raises ValueError for wrong arguments, and OSError
    for files."""
    server = parse_url(address.url, None, address.ca_file or options.ca_file)
    token = options.token if address.token is None else address.token
    shown = Token(token, options.token_file, server)
    return Session(server, shown, options.timeout_seconds, retry_seconds)


def _split(url: str) -> tuple[str, str, int | None, str, str | None, str | None]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            "a broker URL that is not the address of a server; write it like mq://HOST:PORT or "
            "mq+https://HOST:PORT"
        )
    user, password = (unquote(part) if part else None for part in (parts.username, parts.password))
    port = parts.port or (443 if parts.scheme == "https" else None)
    return parts.scheme, parts.hostname, port, parts.path.strip("/"), user, password


def _ca_file(ssl: Any) -> str | None:
    if ssl is True:
        return None
    unknown = set(ssl) - {"ca_certs"} if isinstance(ssl, Mapping) else {str(ssl)}
    if unknown:
        raise ValueError(
            f"broker_use_ssl has {', '.join(sorted(unknown))}: MQ takes True, or a dictionary with "
            f"ca_certs alone; certificates are always checked"
        )
    return str(ssl["ca_certs"])


def _seconds(given: Mapping[str, Any], name: str, default: float | None) -> float | None:
    value = given.get(name, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"transport option {name}={value!r}: give seconds, such as 30 or 0.5")
    return float(value)
