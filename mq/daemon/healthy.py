"""Tell whether the server of this machine or container is ready, as a health check asks.

    python -m mq.daemon.healthy [PID]

asks the server with that process id, or the first that runs here, at the address that its own flags
and variables give: `/readyz` of the admin listener, or, without one, whether the API answers at
all. It uses no proxy. Exit code 0 means yes; 1 means no, with the reason on stderr.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import click

from mq.config import ServerConfig
from mq.daemon.cli import mq

HEALTH_SECONDS = 4.0
"""How long the image's health check waits for the server."""

_STARTERS = ("python", "tini", "docker-init", "dumb-init", "catatonit", "-")
"""Words that may precede a server on a command line: Python and its flags, or the init of a
container."""

_WHERE = ("address", "port", "admin", "cert", "socket")
"""Settings that say where a server listens; the gateway has no unix socket."""

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def main(servers: Sequence[click.Command] = (mq,)) -> None:
    """Ask one of these servers, which are recognized by the names of their commands."""
    try:
        status = ask(config_of(int(sys.argv[1]) if len(sys.argv) > 1 else None, servers))
    except (OSError, HTTPException, LookupError, click.ClickException) as error:
        sys.exit(f"not healthy: {error}")
    if status is not None:
        sys.exit(f"not healthy: {status}")


def ask(config: ServerConfig) -> str | None:
    """Ask the server. Returns None if it is ready, or else what it answers. Raises OSError,
    HTTPException."""
    where = config.admin
    connection = HTTPConnection("localhost", timeout=HEALTH_SECONDS)
    if where is not None:
        connection.sock = _connect(where.host, where.port, config)
    elif config.address:
        connection.sock = _connect(config.address, config.port, config)
    else:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(HEALTH_SECONDS)
        connection.sock.connect(str(config.socket))
    try:
        connection.request("GET", "/" if where is None else "/readyz")
        answer = connection.getresponse()
        text = answer.read(4096).decode("utf-8", "replace")
    finally:
        connection.close()
    # Without an admin listener, an answer that a token is missing or a path is unknown shows that
    # the server works.
    is_ready = answer.status == 200 or (where is None and answer.status < 500)
    return None if is_ready else f"{answer.status} {text.strip()}"


def _connect(host: str, port: int, config: ServerConfig) -> socket.socket:
    connected = socket.create_connection((_EVERY_ADDRESS.get(host, host), port), HEALTH_SECONDS)
    if config.cert is None:
        return connected
    # The certificate is for the name that clients use, and nothing secret is sent.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connected)


def config_of(pid: int | None, servers: Sequence[click.Command]) -> ServerConfig:
    """Return the settings that a running server was started with: the one with that process id, or
    the first that runs here. Raises LookupError if there is none."""
    pids = _processes() if pid is None else [pid]
    for each in pids:
        process = Path(f"/proc/{each}")
        command, *arguments = command_line(process) or [""]
        for server in servers:
            if command == server.name:
                return _config_by(server, process, arguments)
    raise LookupError("no server runs here" if pid is None else f"process {pid} is not mq")


def _config_by(server: click.Command, process: Path, arguments: list[str]) -> ServerConfig:
    variables = (process / "environ").read_bytes().split(b"\0")
    for name, _, value in (os.fsdecode(each).partition("=") for each in variables):
        if name.startswith("MQ_"):
            os.environ[name] = value
    fields = server.make_context(server.name, arguments).params
    return ServerConfig(**{name: fields[name] for name in _WHERE if name in fields})


def _processes() -> list[int]:
    return sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def command_line(process: Path) -> list[str] | None:
    """Return the name of the command that a process runs, and its arguments; None if it cannot be
    read or is empty."""
    try:
        words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return None
    while words and Path(words[0]).name.startswith(_STARTERS):
        words = words[1:]
    return [Path(words[0]).name.replace("_", "-"), *words[1:]] if words else None


if __name__ == "__main__":
    main()
