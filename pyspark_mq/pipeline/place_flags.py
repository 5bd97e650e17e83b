"""The flags of every command that say where the queues are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from mq.command.flags import FILE
from mq.errors import CommandFailed, ExitCode
from pyspark_mq import why_not_importable

F = TypeVar("F", bound=Callable[..., Any])


def place_flags(command: F) -> F:
    """Add --root, --url and the flags that belong to them, as the parameter `place`."""

    @wraps(command)
    def with_place(
        *,
        root: Path | None,
        url: str | None,
        staging: Path | None,
        token_file: Path | None,
        ca_file: Path | None,
        **fields: Any,
    ) -> object:
        if (root is None) == (url is None):
            raise click.UsageError("give one of --root and --url: where the queues are")
        try:
            # PySpark itself is asked for first, so that the error is about that.
            importlib.import_module("pyspark")

            from pyspark_mq.pipeline.places import QueuePlace
        except ImportError as error:
            raise CommandFailed(ExitCode.SYSTEM, why_not_importable(error)) from None
        if root is not None and _is_of_the_environment("token_file"):
            token_file = None  # It is for the commands that speak to servers.
        place = QueuePlace(_whole(root), url, _whole(staging), _whole(token_file), _whole(ca_file))
        return command(place=place, **fields)

    flags = (
        click.option("--root", type=FILE,
                     help="The root that has the queues."),
        click.option("--url",
                     help="In place of --root: servers of one root, separated by commas."),
        click.option("--staging", type=FILE,
                     help="With --url: a folder of this job's own, to be kept between runs."),
        click.option("--token-file", type=FILE, envvar="MQ_CLIENT_TOKEN_FILE", show_envvar=True,
                     help="With --url: a file that holds a token."),
        click.option("--ca-file", type=FILE, help="With --url: certificates to trust, in PEM."),
    )  # fmt: skip
    decorated = cast(F, with_place)
    for flag in reversed(flags):
        decorated = flag(decorated)
    return decorated


def _is_of_the_environment(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.ENVIRONMENT


def _whole(path: Path | None) -> str | None:
    """Return the whole path, because Spark's processes run in other folders."""
    return None if path is None else str(path.absolute())
