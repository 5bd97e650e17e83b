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
from mq.errors import MQError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class Parsed(click.ParamType[T]):
    """What `parse` makes of a text. Of a wrong one it raises ValueError or MQError, with a text for
    people."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return cast(T, value)
        try:
            return self._parse(value)
        except (ValueError, MQError) as error:
            self.fail(str(error), param, ctx)


class NamedPath(Parsed[Path]):
    """A path, with completion."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return click.Path().shell_complete(ctx, param, incomplete)


def parse_path(text: str) -> Path:
    """Return a path that is not empty. An empty one is what a shell makes of a variable that is not
    set, and would mean the current folder, whose files a reaper takes for removed messages. Nothing
    else is checked here, because the code that opens it gives a better error."""
    if not text:
        raise ValueError("the path is empty; write . for the current folder")
    return Path(text)


FILE = FOLDER = NamedPath("path", parse_path)


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmg]?i?)b?", text.strip(), re.IGNORECASE)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"{text!r} is not a size; write it like 65536, 64KiB or 256MiB")
    return int(match[1]) * _UNITS[match[2].lower()]


SIZE = Parsed("size", _size)
"""A number of bytes: `65536`, `64KiB`, `256MiB`, `1GB`."""


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


def permissions(least: int) -> Parsed[int]:
    """Return the type of permissions in octal, such as `700`, with at least those in `least`, which
    the owner needs."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"0?[0-7]{3}", text) or int(text, 8) & least != least:
            raise ValueError(
                f"{text!r} is not a mode in octal that gives the owner at least {least:o}"
            )
        return int(text, 8)

    return Parsed("mode", parse)


def parse_address(text: str) -> Address | None:
    """Return an address to listen on: `127.0.0.1:8081`, `[::1]:8081`, or `:8081` for every address.
    An empty text, or `off` where a variable cannot be empty, means no listener and gives None.
    Raises ValueError."""
    if text in ("", "off"):
        return None
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^:\[\]]*)):(\d{1,5})", text)
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, like 127.0.0.1:8081 or [::1]:8081")
    return Address(match[1] or match[2] or "0.0.0.0", int(match[3]))


ADDRESS = Parsed("address", parse_address)


class HostNames(Parsed[tuple[str, ...]]):
    """Names of hosts, separated by commas and without ports; `*` for any."""

    def __init__(self) -> None:
        super().__init__("names", _host_names)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Take a variable as one value."""
        return [rv]


def _host_names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (each.strip() for each in text.lower().split(","))))
    for name in names:
        if not re.fullmatch(r"\*|[a-z0-9_.-]{1,253}", name):
            raise ValueError(f"{name!r} is not a host name, like mq.example.org")
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
