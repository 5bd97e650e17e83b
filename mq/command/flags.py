"""Types of flags, and flags that several commands have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from mq.config import Address

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class NamedPath(click.ParamType[Path]):
    """A path that is not empty. An empty one is what a shell makes of a variable that is not set,
    and would mean the current folder, whose files a reaper takes for removed messages. Nothing else
    is checked here, because the code that opens it gives a better error."""

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


class Port(click.IntRange):
    """A TCP port; 0 takes a free one."""

    name = "port"

    def __init__(self) -> None:
        super().__init__(0, 65535)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        text = str(value)
        if text.startswith("tcp://"):
            self.fail(
                f"{text!r} is what Kubernetes puts there for a Service of that name; give the pod "
                "enableServiceLinks: false",
                param,
                ctx,
            )
        if not re.fullmatch(r"-?\d{1,9}", text):
            self.fail(f"{text!r} is not a port, such as 8080", param, ctx)
        return int(super().convert(int(text), param, ctx))


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
    """Permissions in octal, such as `700`. They must include those in `least`, which the owner
    needs."""

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
            self.fail(f"{value!r} is not HOST:PORT, like 127.0.0.1:8081 or [::1]:8081", param, ctx)
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
        names = tuple(filter(None, (each.strip() for each in str(value).lower().split(","))))
        for name in names:
            if not re.fullmatch(r"\*|[a-z0-9_.-]{1,253}", name):
                self.fail(f"{name!r} is not a host name, like mq.example.org", param, ctx)
        return names


class Daemon(click.Command):
    """A command whose flags may begin with one dash too, as those of softlayer/mq: `-root=/mq`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {name for each in self.get_params(ctx) for name in each.opts}
        is_short = [f"-{each}".partition("=")[0] in known for each in args]
        given = [f"-{each}" if short else each for each, short in zip(args, is_short, strict=True)]
        return super().parse_args(ctx, given)


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
            Port(),
            None,
            "Serve metrics on this port; 0 takes a free one.",
            variable=port_variable,
        )
        address = flag(
            "--metrics-address",
            "metrics_address",
            str,
            "127.0.0.1",
            "Listen for metrics on this address.",
        )
        return port(address(cast(F, with_address)))

    return decorate
