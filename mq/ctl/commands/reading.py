"""`mqctl cat` and `mqctl tail`: the bodies of messages, which stay where they are."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from mq.command.stdout import printable, require_reader
from mq.config import MAX_ANSWER_MESSAGES, SECOND_NS
from mq.ctl.arguments import ID, queue_argument
from mq.ctl.common_flags import everywhere, flags_of, opened, raw_option
from mq.ctl.screen import display
from mq.ctl.ways.access import Access, ShownMessage, exit_code_of
from mq.errors import CommandFailed, ExitCode, MQError
from mq.ids import id_of_time
from mq.names import MessageId, QueueName

_LOOK_SECONDS = 0.25
"""The pause between two looks at a queue where no events come."""

_AWAY_SECONDS = 1.0
"""The pause between two looks for a server that is away."""

_AWAY = (ExitCode.UNAVAILABLE, ExitCode.TRY_AGAIN)


@click.command()
@queue_argument
@click.argument("ids", metavar="ID...", type=ID, nargs=-1, required=True)
@raw_option
@everywhere
@click.pass_context
def cat(context: click.Context, queue: QueueName, ids: tuple[MessageId, ...], raw: bool) -> None:
    """Write the bodies of messages to stdout, whatever their state.

    Nothing is written between them, and nothing is changed. With --json write a document for each.
    """
    flags = flags_of(context)
    put = display.write_document if flags.as_json else display.write_content
    with opened(flags) as access, display.output_to(None, raw) as (write, _):
        for message_id in ids:
            message = access.peek_at(queue, message_id)
            put(message, write)
            if message.is_damaged:
                raise CommandFailed(
                    ExitCode.UNAVAILABLE,
                    f"message {message_id} fails its seal: its body is not what was published; "
                    "`mqctl --root ROOT fsck --repair` sets it aside",
                )


@click.command()
@queue_argument
@click.option("-f", "--follow", is_flag=True, help="Then write what is published, as it arrives, "
              "until Ctrl-C.")  # fmt: skip
@click.option("-n", "--max", "limit", type=click.IntRange(0, MAX_ANSWER_MESSAGES), default=10,
              show_default=True, help="How many messages to begin with.")  # fmt: skip
@click.option("-l", "--long", "is_long", is_flag=True,
              help="Write a line for each message, as peek does.")  # fmt: skip
@raw_option
@everywhere
@click.pass_context
def tail(
    context: click.Context, *, queue: QueueName, follow: bool, limit: int, is_long: bool, raw: bool
) -> None:
    """Write the bodies of the newest ready messages, oldest first.

    A body that does not end with a line break gets one. Nothing is changed. With -f it goes on
    after a restart of the server.
    """
    flags = flags_of(context)
    put = display.write_line if is_long else display.write_as_line
    if flags.as_json:
        put = display.write_document
    with opened(flags) as access, display.output_to(None, raw) as (write, _):
        found = newest(access, queue, max(limit, 1))
        last = found[-1] if found else None
        for message in found[len(found) - limit if limit < len(found) else 0 :]:
            put(message, write)
        if follow:
            for message in _following(access, queue, last):
                put(message, write)
    if not found:
        context.exit(ExitCode.EMPTY)


def _following(
    access: Access, queue: QueueName, last: ShownMessage | None
) -> Iterator[ShownMessage]:
    """Yield what is published behind `last`, without end. If the server goes away, or the queue
    cannot be read for a while, that is said once, and what was published is yielded after that."""
    is_away = False
    while True:
        sys.stdout.flush()
        access.wait(_AWAY_SECONDS if is_away else _LOOK_SECONDS)
        require_reader()
        try:
            found = _behind(access, queue, last)
        except MQError as error:
            if exit_code_of(error) not in _AWAY:
                raise
            if not is_away:
                click.echo(printable(f"mqctl: {error}; trying again each second"), err=True)
            is_away = True
            continue
        is_away = False
        for message in found:
            yield message
            last = message


def _behind(access: Access, queue: QueueName, last: ShownMessage | None) -> Sequence[ShownMessage]:
    """Return messages behind the last one that was shown. If that one is gone and its id tells no
    time, they are those that were published later."""
    after = id_of_time(0) if last is None else MessageId(last.message_id)
    try:
        return access.peek_behind(queue, after, MAX_ANSWER_MESSAGES)
    except MQError as error:
        if last is None or exit_code_of(error) is not ExitCode.NOT_FOUND:
            raise
    after = id_of_time(int(datetime.fromisoformat(last.published_at).timestamp()) * SECOND_NS)
    while some := access.peek_behind(queue, after, MAX_ANSWER_MESSAGES):
        after = MessageId(some[-1].message_id)
        later = []
        for each in some:
            if each.published_at > last.published_at:
                later.append(each)
            else:
                each.body.close()
        if later:
            return later
    return []


def newest(access: Access, queue: QueueName, limit: int) -> list[ShownMessage]:
    """Return the newest ready messages, oldest first. It looks back further and further, so that a
    long queue is not read from its beginning."""
    seconds, since_ns = 1, 1
    while since_ns:
        since_ns = max(time.time_ns() - seconds * SECOND_NS, 0) if seconds < 10**9 else 0
        found = _since(access, queue, since_ns, limit)
        if len(found) == limit:
            break
        seconds *= 10
    return found


def _since(access: Access, queue: QueueName, since_ns: int, limit: int) -> list[ShownMessage]:
    found: deque[ShownMessage] = deque()
    last = id_of_time(since_ns)
    while some := access.peek_behind(queue, last, MAX_ANSWER_MESSAGES):
        last = MessageId(some[-1].message_id)
        found.extend(some)
        while len(found) > limit:
            found.popleft().body.close()
    return list(found)
