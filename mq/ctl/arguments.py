"""The arguments of the command line, parsed once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from mq.config import MAX_CONTENT_TYPE_BYTES
from mq.errors import (
    CommandFailed,
    ExitCode,
    InvalidName,
    InvalidRequest,
    PropertiesTooLarge,
)
from mq.lines.ndjson import is_content_type
from mq.names import (
    MAX_DEAD_REASON_BYTES,
    MessageId,
    QueueName,
    is_dead_reason,
    parse_message_id,
    parse_queue_name,
)
from mq.properties import Properties, check_properties, require_http_size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LEASE = re.compile(r'"?([0-9a-f]{16})"?')

_OTHER_WORDS = {
    "send": "publish push put post add enqueue",
    "recv": "get pop pull consume fetch read dequeue",
    "--help": "help",
    "ls": "queues",
    "create": "make new declare",
    "info": "stats status show describe count",
    "set": "config configure update",
    "set QUEUE paused=true": "pause suspend",
    "set QUEUE paused=false": "resume unpause",
    "purge": "clear empty drain flush",
    "peek": "browse view look",
    "touch": "extend renew heartbeat",
    "release": "nack reject return",
    "move": "bury",
    "redrive": "retry requeue replay kick",
    "exec": "work worker run",
    "fsck": "check repair",
    "rm for a queue, ack for a message": "delete remove del",
}
"""What other tools call a command of this one."""

_MEANT = {word: meant for meant, words in _OTHER_WORDS.items() for word in words.split()}


class Commands(click.Group):
    """A group that suggests the command that was probably meant, for words that resemble no
    command's name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        meant = _MEANT.get(args[0])
        if meant is not None:
            ctx.fail(f"No such command {args[0]!r}. Use {meant}.")
        return super().resolve_command(ctx, args)


class QueueParam(click.ParamType[QueueName]):
    """A queue's name."""

    name = "queue"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from mq.ctl.completing import queue_names

        names = queue_names(ctx)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> QueueName:
        try:
            return parse_queue_name(str(value))
        except InvalidName as error:
            self.fail(str(error), param, ctx)


queue_argument = click.argument("queue", type=QueueParam())
then_option = click.option(
    "--then", metavar="QUEUE", type=QueueParam(), multiple=True,
    help="Take from this queue when QUEUE has no message; for more queues give it again, the most "
    "urgent first.",
)  # fmt: skip


class IdParam(click.ParamType[MessageId]):
    """A message's id."""

    name = "id"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> MessageId:
        try:
            return parse_message_id(str(value))
        except InvalidName as error:
            self.fail(str(error), param, ctx)


class LeaseParam(click.ParamType[int]):
    """An ETag as `recv` shows it, with or without its quotes."""

    name = "etag"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        match = _LEASE.fullmatch(str(value))
        if match is None or not int(match[1], 16):
            self.fail(f"{value!r} is not a lease; give the one that recv showed", param, ctx)
        return int(match[1], 16)


class ContentTypeParam(click.ParamType[str]):
    """A content type that the server accepts as the header."""

    name = "type"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        text = str(value).strip()
        if not text or not is_content_type(text):
            self.fail(
                f"{value!r} is not a content type: give 1 to {MAX_CONTENT_TYPE_BYTES} printable "
                "ASCII characters",
                param,
                ctx,
            )
        return text


class PropertyParam(click.ParamType[tuple[str, str]]):
    """A property, as NAME=VALUE."""

    name = "name=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, equals, text = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r}: give NAME=VALUE, like X-Meta-Shop=north", param, ctx)
        try:
            check_properties([(name, text)])
        except InvalidRequest as error:
            self.fail(str(error), param, ctx)
        return name, text


def checked_properties(given: Sequence[tuple[str, str]]) -> Properties:
    """Return the properties that were given. Raises UsageError."""
    try:
        properties = check_properties(given)
        require_http_size(properties)
    except (InvalidRequest, PropertiesTooLarge) as error:
        raise click.UsageError(str(error)) from None
    return properties


class ReasonParam(click.ParamType[str]):
    """Why a message is a dead letter."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        text = str(value)
        if not is_dead_reason(text):
            self.fail(
                f"{value!r}: give 1 to {MAX_DEAD_REASON_BYTES} printable ASCII characters, without "
                "space at the ends",
                param,
                ctx,
            )
        return text


class Source:
    """A body to publish, from the command line, a file or stdin."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Read a piece. Raises CommandFailed."""
        try:
            return self._file.read(size)
        except OSError as error:
            raise CommandFailed(
                ExitCode.USAGE, f"the body cannot be read: {error.strerror or error}"
            ) from error

    def close(self) -> None:
        self._file.close()
