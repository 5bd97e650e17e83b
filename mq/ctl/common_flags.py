"""The flags that every command has, before or after its name, and the way in that they choose."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from mq.command.flags import FILE, FOLDER, parse_address
from mq.config import DEFAULT_URL
from mq.ctl.ways.access import Access, exit_code_of, in_own_words
from mq.errors import CommandFailed, MQError

if TYPE_CHECKING:
    from mq.ctl.ways.connect import ClientCredentials

F = TypeVar("F", bound=Callable[..., Any])

_META = "mq.ctl"

_PREFIX = "MQCTL_"

_VARIABLES = {f"{_PREFIX}{name}" for name in ("ADMIN", "CACERT", "ROOT", "TOKEN", "TOKEN_FILE")}

admin_option = click.option(
    "--admin", envvar="MQCTL_ADMIN", show_envvar=True, metavar="HOST:PORT",
    help="The server's admin listener, which knows all queues; may be a URL.  "
    "[default: MQ_ADMIN, or with --url port 8081 of its host]",
)  # fmt: skip

raw_option = click.option(
    "--raw", is_flag=True, help="Write control characters of a body to a terminal too."
)


class CommonFlags(NamedTuple):
    """The way in: the folders in `root`, or else the server at `url`, whose admin listener is at
    `admin`."""

    url: str
    root: Path | None
    as_json: bool
    token_file: Path | None = None
    cacert: Path | None = None
    admin: str | None = None


def everywhere(command: F) -> F:
    """Give a command the flags that all commands have."""
    for option in (
        click.option("--cacert", type=FILE, envvar="MQCTL_CACERT", show_envvar=True,
                     expose_value=False, callback=_note,
                     help="Authorities to trust for https, as a file in PEM."),
        click.option("--token-file", type=FILE, envvar="MQCTL_TOKEN_FILE", show_envvar=True,
                     expose_value=False, callback=_note,
                     help="A file with the token for the server; the variable MQCTL_TOKEN may hold "
                     "the token itself."),
        click.option("--json", "as_json", is_flag=True, expose_value=False, callback=_note,
                     help="Print one JSON document a line."),
        click.option("--root", type=FOLDER, envvar="MQCTL_ROOT", show_envvar=True,
                     expose_value=False, callback=_note,
                     help="Work on the folders of this root, without a server."),
        click.option("--url", envvar="MQ_URL", show_envvar=True, expose_value=False,
                     callback=_note,
                     help=f"The server to ask: http, https, or unix:/PATH.  [default: "
                     f"{DEFAULT_URL}]"),
    ):  # fmt: skip
        command = option(command)
    return command


def _note(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Remember what was given, and where it was given. `meta` is shared with the group."""
    source = context.get_parameter_source(str(parameter.name))
    if value is not None and source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
        context.meta.setdefault(f"{_META}.{source.name}", {})[parameter.name] = value


def flags_of(context: click.Context, admin: str | None = None) -> CommonFlags:
    """Return the flags that apply; `admin` is that of `admin_option`. A flag wins over a variable.
    Raises UsageError if both ways are chosen, or if a variable is unknown: it may be meant to name
    another server than the one that a command would then change."""
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in _VARIABLES and os.environ[name]:
            known = ", ".join(["MQ_URL", *sorted(_VARIABLES)])
            raise click.UsageError(f"unknown variable {name}; mqctl takes {known}")
    flags: dict[str, Any] = context.meta.get(f"{_META}.{ParameterSource.COMMANDLINE.name}", {})
    variables: dict[str, Any] = context.meta.get(f"{_META}.{ParameterSource.ENVIRONMENT.name}", {})
    for given in (flags, variables):
        url, root = given.get("url"), given.get("root")
        if url is not None and root is not None:
            raise click.UsageError(
                "--url and --root (MQ_URL and MQCTL_ROOT) are two ways in; choose one"
            )
        if url is not None or root is not None:
            break
    both = variables | flags
    return CommonFlags(
        DEFAULT_URL if url is None else url,
        root,
        flags.get("as_json", False),
        both.get("token_file"),
        both.get("cacert"),
        admin or _admin_of_server(None if "url" in flags else os.environ.get("MQ_ADMIN"), url),
    )


def _admin_of_server(listens: str | None, url: str | None) -> str | None:
    """Return where a server with MQ_ADMIN in its environment listens. This process has the same
    environment. Returns None if that says nothing about the server that is asked."""
    if listens is None:
        return None
    try:
        address = parse_address(listens)
    except ValueError:
        return listens
    if address is None:
        return None
    host = address.host
    if host in ("0.0.0.0", "::"):
        parts = urlsplit(DEFAULT_URL if url is None or url.startswith("unix:") else url)
        host = parts.hostname or host
    return str(address._replace(host=host))


@contextmanager
def opened(flags: CommonFlags) -> Iterator[Access]:
    """Open the way in. MQ's errors become CommandFailed."""
    try:
        with _access(flags) as access:
            yield access
    except CommandFailed:
        raise
    except MQError as error:
        raise CommandFailed(exit_code_of(error), in_own_words(str(error))) from error


@contextmanager
def _access(flags: CommonFlags) -> Iterator[Access]:
    if flags.root is None:
        from mq.ctl.ways.by_http import HttpAccess

        shown = credentials(flags)
        with closing(HttpAccess(flags.url, shown, flags.admin)) as by_http:
            yield by_http
        return
    from mq.command.logs import configure_logs
    from mq.ctl.ways.by_root import RootAccess
    from mq.ctl.ways.run_as_owner import as_owner

    configure_logs("text", "mqctl")
    with as_owner(flags.root), closing(RootAccess(flags.root)) as by_root:
        yield by_root


def credentials(flags: CommonFlags) -> ClientCredentials:
    """Return the credentials for the server."""
    from mq.ctl.ways.connect import ClientCredentials

    return ClientCredentials(os.environ.get("MQCTL_TOKEN") or None, flags.token_file, flags.cacert)


def require_root(flags: CommonFlags, what: str) -> Path:
    """Return the root, for commands that work only on the folders. Raises UsageError."""
    if flags.root is None:
        raise click.UsageError(f"{what} works on the folders: use --root")
    return flags.root
