"""What the command lines share: flag types, one-line errors, named exit codes."""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import click

from mq.config import Address
from mq.errors import EXIT_CODES, CommandFailed, ExitCode

F = TypeVar("F", bound=Callable[..., Any])

PARENT_VARIABLE = "MQ_PARENT_PID"
"""Set by `mq --standalone` for its children: end when that process ends."""

_PR_SET_PDEATHSIG = 1
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


FILE = click.Path(path_type=Path, readable=False)
FOLDER = click.Path(path_type=Path, readable=False)
"""A folder. Whoever opens it says what is wrong with it, and better than a look beforehand."""


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
    """A number of seconds with decimals. Neither `nan`, which compares with nothing, nor `inf`."""

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
    """Permissions in octal, as `700`: at least those in `least`, which its owner needs."""

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
                f"{value!r} is not a mode that leaves its owner what {self._least:o} says",
                param,
                ctx,
            )
        return int(str(value), 8)


class HostPort(click.ParamType[Address | None]):
    """Where to listen: `127.0.0.1:8081`, `[::1]:8081`, `:8081` for every address; empty, or
    `off` where a variable cannot be empty, for nowhere, which is None."""

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
    """A flag that fills the parameter `field`; `variable` in the environment, or MQ_NAME, does too.

    Flags that mean the same in two commands share a variable, so that one environment serves all.
    """
    given = {} if required else {"default": default}
    return click.option(
        name, field, type=kind, help=help, required=required,
        envvar=variable or "MQ_" + name.lstrip("-").replace("-", "_").upper(),
        show_envvar=True, show_default=True, **given,
    )  # fmt: skip


def metrics_flags(port_variable: str) -> Callable[[F], F]:
    """--metrics-port and --metrics-address, as the parameter `metrics`: an Address, or None."""

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
            "Where the metrics' port listens.",
        )
        return port(address(cast(F, with_address)))

    return decorate


def exit_codes_text(meanings: Mapping[ExitCode, str] = EXIT_CODES) -> str:
    """For the end of `--help`."""
    codes = "\n".join(f"{code.value:>4}  {meanings[code]}" for code in sorted(meanings))
    return f"\b\nExit codes:\n{codes}"


def run(command: click.Command, meanings: Mapping[ExitCode, str] = EXIT_CODES) -> NoReturn:
    """Run a command; an error is one line on stderr, the exit code says of what kind."""
    _follow_parent()
    try:
        code = command.main(prog_name=command.name, standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    except Exception as error:
        code, detail = _explain(error)
        detail = " ".join(detail.split())
        click.echo(f"{command.name}: {detail} (exit {code.value}: {meanings[code]})", err=True)
    sys.exit(code)


def exit_when_asked() -> None:
    """Let SIGTERM and SIGINT end this process with exit code 0, wherever it is.

    For processes that may be killed anywhere. At once, because a second signal, as when Ctrl-C
    reaches a child and its parent passes it on, would hit the interpreter while it shuts down.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(ExitCode.OK))


def _explain(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, click.ClickException):
        return ExitCode.USAGE, error.format_message()
    if isinstance(error, CommandFailed):
        return error.exit_code, str(error)
    traceback.print_exception(error)
    return ExitCode.SOFTWARE, "this should not have happened"


def _follow_parent() -> None:
    """Ask the kernel for SIGTERM when the parent ends, by SIGKILL too (prctl(2))."""
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit(ExitCode.OK)
