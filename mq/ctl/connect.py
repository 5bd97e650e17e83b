"""Where a server is, and what it is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mq.config import DEFAULT_ADMIN
from mq.connection import Address, parse_url
from mq.errors import CommandFailed, ExitCode

_UNIX = "unix:"
_TOKEN = re.compile(r"[!-~]+")
_MAX_TOKEN_FILE_BYTES = 8192


class Credentials(NamedTuple):
    """What a server is shown, and by whom its certificate must be signed; None for the system's
    own authorities."""

    token: str | None = None
    cacert: Path | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def read_token(path: Path) -> str:
    """The one token of a file. Raises CommandFailed, which does not show what is in it."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_TOKEN_FILE_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"token file {path}: {error.strerror or error}"
        ) from error
    return check_token(text, f"token file {path}")


def check_token(text: str, origin: str) -> str:
    """Raises CommandFailed if it cannot stand in a header."""
    if not _TOKEN.fullmatch(text):
        raise CommandFailed(
            ExitCode.USAGE, f"{origin}: there is not one token in it, of printable characters alone"
        )
    return text


def address_of(url: str, cacert: Path | None) -> Address:
    """Raises CommandFailed."""
    try:
        address = parse_url(url, None, cacert)
        if address.socket_path is not None and not address.socket_path.startswith("/"):
            raise ValueError(f"{url!r} is no whole path of a socket; write it like unix:/PATH")
        return address
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from None
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"certificates {cacert}: {error.strerror or error}; name a file in PEM"
        ) from error


def admin_url(url: str, admin: str | None) -> str:
    """The admin listener speaks TLS if the server does; beside a unix socket it is on this
    machine."""
    if url.startswith(_UNIX):
        return f"http://{admin or DEFAULT_ADMIN}"
    parts = urlsplit(url)
    if admin is None:
        host = parts.hostname or ""
        admin = f"{f'[{host}]' if ':' in host else host}:{DEFAULT_ADMIN.port}"
    return f"{parts.scheme}://{admin}"
