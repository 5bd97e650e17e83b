"""mq: the daemon, and with --standalone the whole queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mq import __version__
from mq.command import FILE, FOLDER, HostPort, Mode, Seconds, Size, exit_codes_text, flag, run
from mq.config import MAX_VISIBILITY_SECONDS, STANDALONE_KEEP_SECONDS, ServerConfig
from mq.logs import LOG_FORMATS, configure_logs

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
      "Other servers on this root. Above 0 order is no longer strictly FIFO.")  # fmt: skip
@flag("--visibility", "visibility_seconds",
      Seconds(0, MAX_VISIBILITY_SECONDS, min_open=True), _DEFAULTS.visibility_seconds,
      "Seconds until a received message that was not removed comes back.")  # fmt: skip
@flag("--max-body", "max_body_bytes", Size(), "256MiB", "Largest body, as 1000, 64KiB or 256MiB.")
@flag("--max-receives", "max_receives", click.IntRange(0), _DEFAULTS.max_receives,
      "After so many receives a message goes to QUEUE.dead; 0 for never.")  # fmt: skip
@flag("--max-queue-messages", "max_queue_messages", click.IntRange(0),
      _DEFAULTS.max_queue_messages,
      "While a queue has so many messages ready publish answers 503; 0 for no limit.")  # fmt: skip
@flag("--max-connections", "max_connections", click.IntRange(0), _DEFAULTS.max_connections,
      "Connections above so many are answered 503 and closed; 0 for no limit.")  # fmt: skip
@flag("--header-timeout", "header_timeout_seconds", Seconds(0, min_open=True),
      _DEFAULTS.header_timeout_seconds,
      "Seconds a client has to send a request's head.")  # fmt: skip
@flag("--body-timeout", "body_timeout_seconds", Seconds(0, min_open=True),
      _DEFAULTS.body_timeout_seconds,
      "Seconds between two pieces of a request's body.")  # fmt: skip
@flag("--min-free", "min_free_bytes", Size(), None,
      "Below so much free space publish answers 503; 0 for no floor. "
      "[default: 16MiB, or 1 % of a smaller file system]")  # fmt: skip
@flag("--mode", "mode", Mode(0o700), "700", "Permissions of the folders that are made.")
@flag("--socket", "socket", FILE, None, "Listen on this unix socket too.")
@flag("--socket-mode", "socket_mode", Mode(0o600), "600", "Permissions of the unix socket.")
@click.option("--reuse-port", is_flag=True, help="Let other servers listen on the same port.")
@flag("--token-file", "token_file", FILE, None,
      "Who may do what: NAME SCOPES [QUEUES] TOKEN a line. SIGHUP reads it again.")  # fmt: skip
@flag("--cert", "cert", FILE, None, "Speak TLS with this certificate and its chain, in PEM.")
@flag("--key", "key", FILE, None, "The certificate's key, in PEM, without a password.")
@flag("--admin", "admin", HostPort(), str(_DEFAULTS.admin),
      "Where to tell of health and metrics, as HOST:PORT; empty or off for nowhere.")  # fmt: skip
@flag("--log-format", "log_format", click.Choice(LOG_FORMATS), _DEFAULTS.log_format,
      "Form of the log on stderr.")  # fmt: skip
@flag("--keep", "keep_seconds", Seconds(0), STANDALONE_KEEP_SECONDS,
      "With --standalone: seconds the reaper keeps removed messages.")  # fmt: skip
@click.option("--standalone", is_flag=True, help="Run a mover and a reaper too.")
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq(keep_seconds: float, standalone: bool, **fields: Any) -> None:
    """A durable message queue over plain HTTP.

    A queue is a folder, a message is a file. Flags win over the environment.
    """
    from mq.server import serve

    paths = {name: each.absolute() for name, each in fields.items() if isinstance(each, Path)}
    config = ServerConfig(**fields | paths)
    configure_logs(config.log_format, "mq")
    serve(config, keep_seconds if standalone else None)


def main() -> None:
    run(mq)
