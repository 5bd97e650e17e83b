"""The flags that every command has, wherever on the line they stand, and the way in they choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from mq import errors
from mq.config import DEFAULT_URL
from mq.ctl.access import Access
from mq.errors import CommandFailed, ExitCode, MQError

F = TypeVar("F", bound=Callable[..., Any])

_META = "mq.ctl"
_EXIT_CODES: dict[type[MQError], ExitCode] = {
    errors.QueueNotFound: ExitCode.NOT_FOUND,
    errors.MessageNotFound: ExitCode.NOT_FOUND,
    errors.IdTaken: ExitCode.REFUSED,
    errors.LeaseMismatch: ExitCode.REFUSED,
    errors.ClaimError: ExitCode.REFUSED,
    errors.InvalidName: ExitCode.USAGE,
    errors.InvalidRequest: ExitCode.USAGE,
    errors.BodyTooLarge: ExitCode.REFUSED,
    errors.StoreUnavailable: ExitCode.TRY_AGAIN,
}


class Settings(NamedTuple):
    """The way in: the folders in `root` or, without them, the server at `url`, whose admin listener
    is at `admin`."""

    url: str
    root: Path | None
    as_json: bool
    admin: str | None = None


def everywhere(command: F) -> F:
    """Give a command the flags --url, --root and --json."""
    for option in (
        click.option("--json", "as_json", is_flag=True, expose_value=False, callback=_note,
                     help="Print one JSON document a line."),
        click.option("--root", type=click.Path(path_type=Path, readable=False), envvar="MQCTL_ROOT",
                     show_envvar=True, expose_value=False, callback=_note,
                     help="Work on the folders of this root, without a server."),
        click.option("--url", envvar="MQ_URL", show_envvar=True, expose_value=False,
                     callback=_note,
                     help=f"The server to ask.  [default: {DEFAULT_URL}]"),
    ):  # fmt: skip
        command = option(command)
    return command


def _note(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Remember what was given, by where it was given. `meta` is shared with the group."""
    source = context.get_parameter_source(str(parameter.name))
    if value is not None and source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
        context.meta.setdefault(f"{_META}.{source.name}", {})[parameter.name] = value


def settings_of(context: click.Context) -> Settings:
    """A flag wins over a variable. Raises UsageError if both ways are chosen."""
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
    return Settings(DEFAULT_URL if url is None else url, root, flags.get("as_json", False))


@contextmanager
def opened(settings: Settings) -> Iterator[Access]:
    """The way in. Errors of ours leave as CommandFailed."""
    access: Access
    try:
        if settings.root is None:
            from mq.ctl.by_http import HttpAccess

            access = HttpAccess(settings.url, settings.admin)
        else:
            from mq.ctl.by_root import RootAccess
            from mq.ctl.owner import become_owner
            from mq.logs import configure_logs

            configure_logs("text", "mqctl")
            become_owner(settings.root)
            access = RootAccess(settings.root)
        try:
            yield access
        finally:
            access.close()
    except CommandFailed:
        raise
    except MQError as error:
        raise CommandFailed(_EXIT_CODES[type(error)], str(error)) from error


def require_root(settings: Settings, what: str) -> Path:
    """For what only works on the folders. Raises UsageError."""
    if settings.root is None:
        raise click.UsageError(f"{what} works on the folders: use --root")
    return settings.root
