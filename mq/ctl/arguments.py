"""The arguments of the command line, parsed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from mq.command.flags import Parsed
from mq.config import MAX_CONTENT_TYPE_BYTES
from mq.errors import (
    CommandFailed,
    ExitCode,
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

T = TypeVar("T")

_OTHER_WORDS = {
    "send": "publish push put post add enqueue produce send-message",
    "recv": "receive get pop pull consume fetch read dequeue reserve receive-message",
    "--help": "help",
    "--version": "version",
    "the command mq": "start serve server",
    "ls": "list queues list-queues",
    "create": "make new declare create-queue",
    "info": "stats status show describe count size length settings",
    "set": "config configure update",
    "set QUEUE paused=true": "pause suspend",
    "set QUEUE paused=false": "resume unpause",
    "set QUEUE also=OTHERS": "bind fanout mirror",
    "purge": "clear empty drain flush truncate purge-queue",
    "peek": "browse view look",
    "top": "watch monitor",
    "tail": "follow listen subscribe log logs",
    "ack": "delete-message complete finish",
    "touch": "extend renew heartbeat",
    "release": "nack reject return",
    "move": "bury term",
    "redrive": "retry requeue replay kick",
    "export": "dump backup save",
    "import": "load restore",
    "exec": "work worker run",
    "fsck": "check repair verify",
    "rm for a queue, ack for a message": "delete remove del drop destroy",
    "rm": "delete-queue",
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


class QueueParam(Parsed[T]):
    """A queue's name, or several with commas between them, with completion."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from mq.ctl.completing import queue_names

        return [CompletionItem(each) for each in queue_names(ctx, incomplete)]


QUEUE = QueueParam("queue", parse_queue_name)
QUEUES = QueueParam("queues", lambda text: [parse_queue_name(each) for each in text.split(",")])
ID = Parsed("id", parse_message_id)

queue_argument = click.argument("queue", type=QUEUE)


def queues_option(flag: str, help_text: str) -> Callable[[Any], Any]:
    """Return an option that names queues, with commas between them or in several flags."""

    def flat(
        _context: click.Context, _option: click.Parameter, given: Iterable[list[QueueName]]
    ) -> tuple[QueueName, ...]:
        return tuple(chain.from_iterable(given))

    return click.option(
        flag, metavar="QUEUE", type=QUEUES, multiple=True, callback=flat, help=help_text
    )


then_option = queues_option(
    "--then",
    "Take from this queue when QUEUE has no message; for more queues write commas, or give it "
    "again, the most urgent first.",
)


def _lease(text: str) -> int:
    match = re.fullmatch(r'"?([0-9a-f]{16})"?', text)
    if match is None or not int(match[1], 16):
        raise ValueError(f"{text!r} is not a lease; give the one that recv showed")
    return int(match[1], 16)


def require_one(lease: int | None, ids: Sequence[MessageId]) -> None:
    """Raise UsageError if there is a lease, and more than one message that it may be of."""
    if lease is not None and len(ids) > 1:
        raise click.UsageError("--lease belongs to one message; give exactly one ID with it")


def _content_type(text: str) -> str:
    kind = text.strip()
    if not kind or not is_content_type(kind):
        raise ValueError(
            f"{text!r} is not a content type: give 1 to {MAX_CONTENT_TYPE_BYTES} printable ASCII "
            "characters"
        )
    return kind


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r}: give NAME=VALUE, like X-Meta-Shop=north")
    check_properties([(name, value)])
    return name, value


def _reason(text: str) -> str:
    if not is_dead_reason(text):
        raise ValueError(
            f"{text!r}: give 1 to {MAX_DEAD_REASON_BYTES} printable ASCII characters, without "
            "space at the ends"
        )
    return text


LEASE = Parsed("etag", _lease)
"""An ETag as `recv` shows it, with or without its quotes."""

CONTENT_TYPE = Parsed("type", _content_type)
PROPERTY = Parsed("name=value", _property)
REASON = Parsed("text", _reason)


def checked_properties(given: Sequence[tuple[str, str]]) -> Properties:
    """Return the properties that were given. Raises UsageError."""
    try:
        properties = check_properties(given)
        require_http_size(properties)
    except (InvalidRequest, PropertiesTooLarge) as error:
        raise click.UsageError(str(error)) from None
    return properties


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
