"""The command line of mq: the server, and with --standalone the whole queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mq import __version__
from mq.command.flags import ADDRESS, FILE, SIZE, Daemon, Port, Seconds, flag, permissions
from mq.command.logs import configure_logs
from mq.command.running import exit_codes_text, run
from mq.command.signals import fail_when_asked
from mq.command.variables import warn_of_misspelled
from mq.config import ServerConfig
from mq.daemon.shared_flags import client_flags, store_flags
from mq.disk.calls import STATE
from mq.errors import CommandFailed, ExitCode

STANDALONE_KEEP_SECONDS = 60.0
"""`--keep` of the reaper that `mq --standalone` starts."""

_DEFAULTS = ServerConfig()


@click.command(name="mq", cls=Daemon, epilog=exit_codes_text())
@store_flags
@flag("--address", "address", str, _DEFAULTS.address, "Address to listen on; empty for none.")
@flag("--port", "port", Port(), _DEFAULTS.port,
      "TCP port; 0 takes a free one, which the log names.")  # fmt: skip
@flag("--max-body", "max_body_bytes", SIZE, "256MiB",
      "The largest body, written like 1000, 64KiB or 256MiB.")  # fmt: skip
@flag("--socket", "socket", FILE, None, "Listen on this unix socket too.")
@flag("--socket-mode", "socket_mode", permissions(0o600), "600", "Permissions of the unix socket.")
@flag("--admin", "admin", ADDRESS, str(_DEFAULTS.admin),
      "HOST:PORT to serve the page, health and metrics on; empty or off for none.")  # fmt: skip
@click.option("--admin-write", is_flag=True, envvar="MQ_ADMIN_WRITE", show_envvar=True,
              help="Let the page there publish, remove and delete, with the tokens of the "
              "main port.")  # fmt: skip
@client_flags
@flag("--keep", "keep_seconds", Seconds(0), STANDALONE_KEEP_SECONDS,
      "With --standalone: seconds for which the reaper keeps removed messages.")  # fmt: skip
@flag("--sqs-port", "sqs_port", Port(), None,
      "With --standalone: speak Amazon's SQS on this port too, as mq-sqs does.")  # fmt: skip
@click.option("--standalone", is_flag=True,
              help="Run a mover and a reaper too. Without a mover no message returns; without a "
              "reaper the disk fills up.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Say what the file system of --root can do, and exit.")  # fmt: skip
@click.version_option(__version__, message=f"%(prog)s %(version)s (native part: {STATE})")
def mq(
    keep_seconds: float, sqs_port: int | None, standalone: bool, check: bool, **fields: Any
) -> None:
    """A durable message queue over plain HTTP.

    A queue is a folder, a message is a file. `mq --standalone --root=/srv/mq` runs all that a queue
    needs. A flag overrides its environment variable.
    """
    from mq.daemon.server import serve
    from mq.daemon.standalone import Supervision

    if _is_flag("keep_seconds") and not standalone:
        raise click.UsageError("--keep goes with --standalone; or give it to mq-reaper")
    if _is_flag("sqs_port") and not standalone:
        raise click.UsageError("--sqs-port goes with --standalone; or start mq-sqs beside mq")
    if _is_flag("admin_write") and fields["admin"] is None:
        raise click.UsageError("--admin-write needs an admin listener; give --admin HOST:PORT")
    config = server_config(fields)
    if standalone and sqs_port and config.address and sqs_port == config.port:
        # With --reuse-port both would listen there.
        raise click.UsageError(f"--port and --sqs-port are both {sqs_port}; choose another one")
    if check:
        fail_when_asked()
        return check_abilities(config.root)
    configure_logs(config.log_format, "mq")
    warn_of_misspelled()
    serve(config, Supervision(keep_seconds, sqs_port) if standalone else None)


def _is_flag(name: str) -> bool:
    """Return whether an option is on the command line. In the environment, which several processes
    may share, it may be meant for another one."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def check_abilities(root: Path) -> None:
    """Print what the root's file system can do. Raises CommandFailed if no server could start."""
    from mq.spool.abilities import try_abilities

    try:
        abilities = try_abilities(root)
    except OSError as error:
        raise CommandFailed(
            ExitCode.ROOT, f"root {root}: {error.strerror}: {error.filename}"
        ) from None
    for each in abilities:
        mark = "yes" if each.is_there else "no"
        click.echo(f"{each.name:<36}{mark:<5}{each.found}")
    missing = [each.name for each in abilities if each.is_needed and not each.is_there]
    if missing:
        raise CommandFailed(
            ExitCode.SYSTEM,
            f"root {root}: this file system lacks: {', '.join(missing)}; choose another one",
        )


def server_config(fields: Mapping[str, Any]) -> ServerConfig:
    """Return the settings that the flags ask for."""
    paths = {name: each.absolute() for name, each in fields.items() if isinstance(each, Path)}
    return ServerConfig(**{**fields, **paths})


def main() -> None:
    run(mq)
