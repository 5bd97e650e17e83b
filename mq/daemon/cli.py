"""The command line of mq: the daemon, and with --standalone the whole queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mq import __version__
from mq.command.flags import (
    FILE,
    FOLDER,
    HostNames,
    HostPort,
    Mode,
    Seconds,
    Size,
    exit_codes_text,
    flag,
    run,
)
from mq.command.logs import LOG_FORMATS, configure_logs
from mq.config import MAX_VISIBILITY_SECONDS, STANDALONE_KEEP_SECONDS, ServerConfig
from mq.spool.calls import STATE

_DEFAULTS = ServerConfig()


@click.command(name="mq", epilog=exit_codes_text())
@flag("--root", "root", FOLDER, _DEFAULTS.root,
      "The folder tree; made if it is missing.")  # fmt: skip
@flag("--address", "address", str, _DEFAULTS.address, "Where to listen; empty for no TCP port.")
@flag("--port", "port", click.IntRange(0, 65535), _DEFAULTS.port,
      "TCP port; 0 takes a free one, which the log names.")  # fmt: skip
@flag("--workers", "workers", click.IntRange(1, 256), _DEFAULTS.workers,
      "Threads for large bodies, listings and sweeps.")  # fmt: skip
@flag("--peers", "peers", click.IntRange(0, 1000), _DEFAULTS.peers,
      "How many other servers work on this root. Above 0, order is not strictly FIFO.")  # fmt: skip
@flag("--visibility", "visibility_seconds",
      Seconds(0, MAX_VISIBILITY_SECONDS, min_open=True), _DEFAULTS.visibility_seconds,
      "Seconds until a received message returns unless it is removed.")  # fmt: skip
@flag("--max-body", "max_body_bytes", Size(), "256MiB",
      "The largest body, as 1000, 64KiB or 256MiB.")  # fmt: skip
@flag("--max-receives", "max_receives", click.IntRange(0), _DEFAULTS.max_receives,
      "After this many receives a message goes to QUEUE.dead; 0 for never.")  # fmt: skip
@flag("--max-queue-messages", "max_queue_messages", click.IntRange(0),
      _DEFAULTS.max_queue_messages,
      "Publish answers 503 while a queue has this many ready messages; 0: no limit.")  # fmt: skip
@flag("--max-connections", "max_connections", click.IntRange(0), _DEFAULTS.max_connections,
      "Connections above this number are closed at once; 0 for no limit.")  # fmt: skip
@flag("--header-timeout", "header_timeout_seconds", Seconds(0, min_open=True),
      _DEFAULTS.header_timeout_seconds,
      "Seconds a client has to send the head of a request.")  # fmt: skip
@flag("--body-timeout", "body_timeout_seconds", Seconds(0, min_open=True),
      _DEFAULTS.body_timeout_seconds,
      "Seconds of a pause within a request's body, or while an answer is read.")  # fmt: skip
@flag("--min-free", "min_free_bytes", Size(), None,
      "Publish answers 503 while less space than this is free; 0 for no floor. "
      "[default: 16MiB, or 1 % of a smaller file system]")  # fmt: skip
@flag("--mode", "mode", Mode(0o700), "700", "Permissions of the folders that mq makes.")
@flag("--socket", "socket", FILE, None, "Listen on this unix socket too.")
@flag("--socket-mode", "socket_mode", Mode(0o600), "600", "Permissions of the unix socket.")
@click.option("--reuse-port", is_flag=True, help="Let other servers listen on the same port.")
@flag("--token-file", "token_file", FILE, None,
      "Who may do what: NAME SCOPES [QUEUES] TOKEN a line. SIGHUP reads it again.")  # fmt: skip
@flag("--cert", "cert", FILE, None, "Speak TLS with this certificate and its chain, in PEM.")
@flag("--key", "key", FILE, None, "The certificate's key, in PEM, without a password.")
@flag("--admin", "admin", HostPort(), str(_DEFAULTS.admin),
      "Where to serve the page, health and metrics, as HOST:PORT; empty or off for "
      "nowhere.")  # fmt: skip
@click.option("--admin-write", is_flag=True, envvar="MQ_ADMIN_WRITE", show_envvar=True,
              help="Let the page there publish, remove and delete, with the tokens of the "
              "main port.")  # fmt: skip
@click.option("--allowed-host", "allowed_hosts", type=HostNames(), multiple=True,
              default=_DEFAULTS.allowed_hosts, envvar="MQ_ALLOWED_HOST", show_envvar=True,
              show_default=True, callback=lambda _context, _option, given: sum(given, ()),
              help="Names by which clients may call the server, besides localhost, --address and "
              "any IP address: separated by commas, or in several flags; * for every "
              "name.")  # fmt: skip
@click.option("--insecure", is_flag=True, envvar="MQ_INSECURE", show_envvar=True,
              help="Start without --token-file where other machines can connect.")  # fmt: skip
@flag("--log-format", "log_format", click.Choice(LOG_FORMATS), _DEFAULTS.log_format,
      "Form of the log on stderr.")  # fmt: skip
@flag("--keep", "keep_seconds", Seconds(0), STANDALONE_KEEP_SECONDS,
      "With --standalone: seconds the reaper keeps removed messages.")  # fmt: skip
@click.option("--standalone", is_flag=True, help="Run a mover and a reaper too.")
@click.version_option(__version__, message=f"%(prog)s %(version)s (native part: {STATE})")
def mq(keep_seconds: float, standalone: bool, **fields: Any) -> None:
    """A durable message queue over plain HTTP.

    A queue is a folder, a message is a file. A flag overrides its environment variable.
    """
    from mq.daemon.server import serve

    paths = {name: each.absolute() for name, each in fields.items() if isinstance(each, Path)}
    config = ServerConfig(**fields | paths)
    configure_logs(config.log_format, "mq")
    serve(config, keep_seconds if standalone else None)


def main() -> None:
    run(mq)
