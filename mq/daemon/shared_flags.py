"""The flags that each server on a root has, whatever it speaks: `mq`, and the gateway for SQS."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from mq.command.flags import FILE, FOLDER, SIZE, HostNames, Seconds, flag, permissions
from mq.command.logs import LOG_FORMATS
from mq.config import MAX_VISIBILITY_SECONDS, ServerConfig

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS = ServerConfig()

_STORE = (
    flag("--root", "root", FOLDER, _DEFAULTS.root,
         "The folder tree; made if it is missing."),
    flag("--workers", "workers", click.IntRange(1, 256), _DEFAULTS.workers,
         "Threads for large bodies, listings and sweeps."),
    flag("--peers", "peers", click.IntRange(0, 1000), _DEFAULTS.peers,
         "How many other servers work on this root. Above 0, receives and syncs allow for them."),
    flag("--visibility", "visibility_seconds",
         Seconds(0, MAX_VISIBILITY_SECONDS, min_open=True), _DEFAULTS.visibility_seconds,
         "Seconds until a received message returns unless it is removed."),
    flag("--max-receives", "max_receives", click.IntRange(0), _DEFAULTS.max_receives,
         "After this many receives a message goes to QUEUE.dead; 0 for never."),
    flag("--max-queue-messages", "max_queue_messages", click.IntRange(0),
         _DEFAULTS.max_queue_messages,
         "Publish answers 503 while a queue has this many ready messages; 0 for no limit."),
    flag("--min-free", "min_free_bytes", SIZE, None,
         "Publish answers 503 while less space than this is free; 0 for no floor. "
         "[default: 16MiB, or 1 % of a smaller file system]"),
    flag("--mode", "mode", permissions(0o700), "700", "Permissions of the folders that mq makes."),
)  # fmt: skip

_CLIENTS = (
    flag("--max-connections", "max_connections", click.IntRange(0), _DEFAULTS.max_connections,
         "Connections above this number are closed at once; 0 for no limit."),
    flag("--header-timeout", "header_timeout_seconds", Seconds(0, min_open=True),
         _DEFAULTS.header_timeout_seconds,
         "Seconds that a client has to send the head of a request."),
    flag("--body-timeout", "body_timeout_seconds", Seconds(0, min_open=True),
         _DEFAULTS.body_timeout_seconds,
         "Longest pause within a request's body, or while an answer is read, in seconds."),
    click.option("--reuse-port", is_flag=True, help="Let other servers listen on the same port."),
    flag("--token-file", "token_file", FILE, None,
         "A file that says who may do what: a line NAME SCOPES [QUEUES] TOKEN for each. SIGHUP "
         "reads it again."),
    flag("--cert", "cert", FILE, None, "Speak TLS with this certificate and its chain, in PEM."),
    flag("--key", "key", FILE, None, "The certificate's key, in PEM, without a password."),
    click.option("--allowed-host", "allowed_hosts", type=HostNames(), multiple=True,
                 default=_DEFAULTS.allowed_hosts, envvar="MQ_ALLOWED_HOST", show_envvar=True,
                 show_default=True, callback=lambda _context, _option, given: sum(given, ()),
                 help="Names by which clients may call the server, besides localhost, --address "
                 "and any IP address: separated by commas, or in several flags; * for every "
                 "name."),
    click.option("--insecure", is_flag=True, envvar="MQ_INSECURE", show_envvar=True,
                 help="Start even if other machines can connect and --token-file is missing."),
    flag("--log-format", "log_format", click.Choice(LOG_FORMATS), _DEFAULTS.log_format,
         "Format of the log on stderr."),
)  # fmt: skip


def store_flags(command: F) -> F:
    """Add the flags that concern the store."""
    return reduce(lambda decorated, add: add(decorated), reversed(_STORE), command)


def client_flags(command: F) -> F:
    """Add the flags that concern clients, and the log."""
    return reduce(lambda decorated, add: add(decorated), reversed(_CLIENTS), command)
