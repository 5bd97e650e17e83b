"""Everything that a server listens on, bound before the store is opened."""

from __future__ import annotations

import errno
from typing import NamedTuple

import structlog

from mq.config import DEFAULT_ADMIN, Address, ServerConfig
from mq.daemon.sockets import (
    ADMIN_SOCKET_NAME,
    Listener,
    bind_address,
    bind_unix,
    refusal,
    take_handed_over,
)
from mq.daemon.tls import Certificate
from mq.errors import ExitCode, StartRefused

log = structlog.get_logger(__name__)


class Listeners(NamedTuple):
    api: list[Listener]
    admin: list[Listener]

    def close(self) -> None:
        for listener in (*self.api, *self.admin):
            listener.close()


def bind(config: ServerConfig, tls: Certificate | None) -> Listeners:
    """Bind all sockets. Sockets that systemd hands over replace `--address` and, by name,
    `--admin`. Raises StartRefused."""
    handed_over = take_handed_over(tls)
    admin = handed_over.pop(ADMIN_SOCKET_NAME, [])
    bound = Listeners([each for group in handed_over.values() for each in group], admin)
    try:
        if not bound.api and config.address:
            bound.api.extend(_bind_address(config, tls))
        if config.socket is not None:
            bound.api.append(bind_unix(config.socket, config.socket_mode))
        if not bound.api:
            raise StartRefused(
                ExitCode.USAGE,
                "there is nothing to listen on: --address is empty, and no unix socket is given; "
                "give --address",
            )
        if not bound.admin and config.admin is not None:
            bound.admin.extend(_bind_admin(config.admin, tls))
        _check_who_comes_in(bound, config)
    except BaseException:
        bound.close()
        raise
    return bound


def _bind_address(config: ServerConfig, tls: Certificate | None) -> list[Listener]:
    try:
        return bind_address(Address(config.address, config.port), tls, config.reuse_port)
    except OSError as error:
        stop = "stop what listens there or " if error.errno == errno.EADDRINUSE else ""
        way_out = f"{stop}choose another --port or --address"
        raise refusal(f"{config.address} port {config.port}", error, way_out) from error


def _bind_admin(address: Address, tls: Certificate | None) -> list[Listener]:
    try:
        return bind_address(address, tls)
    except OSError as error:
        refused = refusal(
            f"{address.host} port {address.port} for --admin",
            error,
            "stop what listens there, choose another address, or --admin= for none",
        )
        if address != DEFAULT_ADMIN:
            raise refused from error
    # If two servers run on one machine with default flags, the second one does without.
    log.warning("no admin listener", why=str(refused))
    return []


def _check_who_comes_in(bound: Listeners, config: ServerConfig) -> None:
    """Check who can connect from other machines. Raises StartRefused if anyone there may do
    everything and --insecure is not given. Logs one line if it is given, or if TLS is missing."""
    urls = " ".join(each.url for each in (*bound.api, *bound.admin) if each.is_open_to_others)
    missing = [
        flag
        for flag, value in (("--token-file", config.token_file), ("--cert", config.cert))
        if value is None
    ]
    if urls and config.token_file is None and not config.insecure:
        raise StartRefused(
            ExitCode.USAGE,
            f"{urls}: other machines can connect there, and without tokens do everything; give "
            "--token-file, or --insecure if you mean it",
        )
    if urls and missing:
        log.warning("open to other machines", urls=urls, without=" ".join(missing))
