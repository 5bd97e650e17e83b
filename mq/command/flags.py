"""What the command lines share: flag types, one-line errors, named exit codes."""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from mq.command.stdin import guard_stdin
from mq.command.stdout import ReaderGone, drop_stdout, guard_stdout, printable
from mq.config import Address
from mq.errors import EXIT_CODES, CommandFailed, ExitCode

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

PARENT_VARIABLE = "MQ_PARENT_PID"
"""`mq --standalone` sets it for its children, which end when that process ends."""

_PR_SET_PDEATHSIG = 1
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class NamedPath(click.ParamType[Path]):
    """A path that has a name. An empty one is what a shell makes of a variable that is not set, and
    would be the current folder, whose files a reaper takes for removed messages. Nothing else is
    checked here, because the code that opens it gives a better error."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        if not str(value):
            self.fail("the path is empty; write . for the current folder", param, ctx)
        return Path(str(value))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return click.Path().shell_complete(ctx, param, incomplete)


FILE = FOLDER = NamedPath()


class Size(click.ParamType[int]):
    """A number of bytes: `65536`, `64KiB`, `256MiB`, `1GB`."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)\s*([kmg]?i?)b?", str(value).strip(), re.IGNORECASE)
        if match is None or match[2].lower() not in _UNITS:
            self.fail(f"{value!r} is not a size; write it like 65536, 64KiB or 256MiB", param, ctx)
        return int(match[1]) * _UNITS[match[2].lower()]


class Seconds(click.FloatRange):
    """A number of seconds with decimals. Refuses `nan`, which compares with nothing, and `inf`."""

    name = "seconds"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return float(super().convert(seconds, param, ctx))


class Mode(click.ParamType[int]):
    """Permissions in octal, as `700`. They must include those in `least`, which the owner needs."""

    name = "mode"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        is_octal = re.fullmatch(r"0?[0-7]{3}", str(value)) is not None
        if not is_octal or int(str(value), 8) & self._least != self._least:
            self.fail(
                f"{value!r} is not a mode in octal that gives the owner at least {self._least:o}",
                param,
                ctx,
            )
        return int(str(value), 8)


class HostPort(click.ParamType[Address | None]):
    """An address to listen on: `127.0.0.1:8081`, `[::1]:8081`, or `:8081` for every address. An
    empty text, or `off` where a variable cannot be empty, means no listener and gives None."""

    name = "address"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address | None:
        if isinstance(value, Address):
            return value
        if value in ("", "off"):
            return None
        match = re.fullmatch(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^:\[\]]*)):(\d{1,5})", str(value))
        if match is None or int(match[3]) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, as 127.0.0.1:8081 or [::1]:8081", param, ctx)
        return Address(match[1] or match[2] or "0.0.0.0", int(match[3]))


class HostNames(click.ParamType[tuple[str, ...]]):
    """Names of hosts, separated by commas and without ports; `*` for any."""

    name = "names"

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Take a variable as one value."""
        return [rv]

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(filter(None, str(value).lower().replace(" ", "").split(",")))
        for name in names:
            if not re.fullmatch(r"\*|[a-z0-9_.-]{1,253}", name):
                self.fail(f"{name!r} is not a host's name, as mq.example.org", param, ctx)
        return names


def flag(
    name: str,
    field: str,
    kind: Any,
    default: Any,
    help: str,
    *,
    variable: str | None = None,
    required: bool = False,
) -> Callable[[F], F]:
    """Return a flag that fills the parameter `field`. The environment variable `variable` (MQ_NAME
    by default) fills it too. Flags that mean the same in two commands share a variable, so one
    environment serves all."""
    given = {} if required else {"default": default}
    return click.option(
        name, field, type=kind, help=help, required=required,
        envvar=variable or "MQ_" + name.lstrip("-").replace("-", "_").upper(),
        show_envvar=True, show_default=default != "", **given,
    )  # fmt: skip


def metrics_flags(port_variable: str) -> Callable[[F], F]:
    """Add --metrics-port and --metrics-address. The command gets `metrics`, an Address or None."""

    def decorate(command: F) -> F:
        @wraps(command)
        def with_address(
            *, metrics_port: int | None, metrics_address: str, **fields: Any
        ) -> object:
            asked = None if metrics_port is None else Address(metrics_address, metrics_port)
            return command(metrics=asked, **fields)

        port = flag(
            "--metrics-port",
            "metrics_port",
            click.IntRange(0, 65535),
            None,
            "Serve metrics on this port; 0 takes a free one.",
            variable=port_variable,
        )
        address = flag(
            "--metrics-address",
            "metrics_address",
            str,
            "127.0.0.1",
            "Where the port for metrics listens.",
        )
        return port(address(cast(F, with_address)))

    return decorate


def exit_codes_text(meanings: Mapping[ExitCode, str] = EXIT_CODES) -> str:
    """Return the list of exit codes for the end of `--help`."""
    codes = "\n".join(f"{code.value:>4}  {meanings[code]}" for code in sorted(meanings))
    return f"\b\nExit codes:\n{codes}"


def run(command: click.Command, meanings: Mapping[ExitCode, str] = EXIT_CODES) -> NoReturn:
    """Run a command. An error is one line on stderr, and the exit code says its kind."""
    _follow_parent()
    guard_stdin()
    guard_stdout()
    try:
        code = command.main(prog_name=command.name, standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    except ReaderGone:
        drop_stdout()
        code = 128 + signal.SIGPIPE
    except SystemExit as error:
        # click ends like this on EPIPE of stderr. EPIPE of stdout is a ReaderGone.
        is_closed = isinstance(error.__context__, BrokenPipeError)
        code = 128 + signal.SIGPIPE if is_closed else error.code
    except Exception as error:
        code, detail = _explain(error)
        if code is ExitCode.OUTPUT:
            drop_stdout()
        detail = printable(" ".join(detail.split()))
        with suppress(OSError):
            click.echo(f"{command.name}: {detail} (exit {code.value}: {meanings[code]})", err=True)
    sys.exit(code)


def exit_when_asked() -> None:
    """Let SIGTERM and SIGINT end this process at once with exit code 0, wherever it is. SIGINT is
    ignored if the process was started so, as a shell does with background jobs.

    This is only for processes that may be killed anywhere. They end at once because a second signal
    would hit the interpreter while it shuts down, for example when Ctrl-C reaches a child and its
    parent passes it on.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        if number is signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(ExitCode.OK))


def _explain(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, click.ClickException):
        return ExitCode.USAGE, error.format_message()
    if isinstance(error, CommandFailed):
        return error.exit_code, str(error)
    traceback.print_exception(error)
    return ExitCode.SOFTWARE, "an unexpected error; the lines above say where"


def _follow_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends, even if that was by SIGKILL (prctl(2)).

    A stopped process would keep SIGTERM for later, and these children may be killed anywhere.
    """
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit(ExitCode.OK)
