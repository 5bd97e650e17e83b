"""`mqctl move` and `redrive`: messages go from one queue to another as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import click

from mq.command.pace import messages_text
from mq.command.stdout import printable
from mq.config import MAX_MOVES
from mq.ctl.arguments import ID, LEASE, QUEUE, REASON, queue_argument
from mq.ctl.common_flags import everywhere, flags_of, opened
from mq.ctl.screen import display
from mq.ctl.screen.progress import ProgressBar
from mq.ctl.ways.access import Access, QueueMove, ShownMessage, exit_code_of
from mq.errors import (
    CommandFailed,
    ExitCode,
    IdTaken,
    MessageNotFound,
    MQError,
)
from mq.names import DEAD_SUFFIX, MessageId, QueueName, dead_letter_queue

_TAKEN, _GONE = "urn:mq:problem:id-taken", "urn:mq:problem:message-not-found"
_KINDS: dict[type[MQError], str] = {IdTaken: _TAKEN, MessageNotFound: _GONE}

_max = click.option("-n", "--max", "limit", type=click.IntRange(1),
                    help="How many messages at most, oldest first.  [default: all that are "
                    "ready]")  # fmt: skip
_ids = click.option("--id", "ids", type=ID, multiple=True, metavar="ID",
                    help="Only this message, whatever its state; may be given again.")  # fmt: skip


@click.command()
@click.argument("source", type=QUEUE)
@click.argument("target", type=QUEUE)
@_max
@_ids
@click.option("--lease", type=LEASE, help="With one --id: only under this lease, as recv "
              "showed it.")  # fmt: skip
@click.option("--reason", type=REASON, help="Why they are dead letters in TARGET, which "
              "tells it to those who receive them.")  # fmt: skip
@everywhere
@click.pass_context
def move(
    context: click.Context,
    *,
    source: QueueName,
    target: QueueName,
    limit: int | None,
    ids: tuple[MessageId, ...],
    lease: int | None,
    reason: str | None,
) -> None:
    """Move messages from queue SOURCE to queue TARGET.

    They are ready there. Each keeps its id, its properties and its place in the order; its count
    begins at 0. One whose id TARGET has already stays where it is.
    """
    flags = flags_of(context)
    _refuse_both(limit, ids)
    if lease is not None and len(ids) != 1:
        raise click.UsageError("--lease belongs to one message; give exactly one --id with it")
    if source == target:
        raise click.UsageError(f"messages of queue {source} are in it already; name another queue")
    with opened(flags) as access:
        moved, taken = _move(access, [QueueMove(source, target, reason, lease)], limit, ids)
    _say_what_stays(moved, taken, target)
    document = {"source": source, "target": target, "moved": moved}
    display.say(flags.as_json, document, f"moved {messages_text(moved)}")
    if not moved:
        context.exit(ExitCode.EMPTY)


@click.command()
@queue_argument
@_max
@_ids
@click.option("--to", "target", type=QUEUE, help="Another queue to move them to.  [default: "
              "QUEUE]")  # fmt: skip
@everywhere
@click.pass_context
def redrive(
    context: click.Context,
    *,
    queue: QueueName,
    limit: int | None,
    ids: tuple[MessageId, ...],
    target: QueueName | None,
) -> None:
    """Move the dead letters of QUEUE back to it.

    They are in QUEUE.dead, and in the queue that its setting dead-letters names: of that one only
    those that died in QUEUE are moved. Each keeps its id, its properties and its place in the
    order; its count begins at 0.
    """
    flags = flags_of(context)
    _refuse_both(limit, ids)
    dead = dead_letter_queue(queue)
    if dead is None:
        raise click.UsageError(f"name the queue itself: {queue.removesuffix(DEAD_SUFFIX)}")
    with opened(flags) as access:
        named = QueueName(access.settings(queue).get("dead-letters", dead))
        moves = [
            QueueMove(source, target or queue, died_in=None if source == dead else queue)
            for source in dict.fromkeys((dead, named))
            if _may_be_there(access, source)
        ]
        if not moves:
            text = f"queue {queue} has no dead letters: there is no queue {named}"
            raise CommandFailed(ExitCode.NOT_FOUND, text)
        moved, taken = _move(access, moves, limit, ids)
    _say_what_stays(moved, taken, target or queue)
    display.say(flags.as_json, {"queue": queue, "redriven": moved}, f"moved {messages_text(moved)}")
    if not moved:
        context.exit(ExitCode.EMPTY)


def _may_be_there(access: Access, source: QueueName) -> bool:
    """Return False if there is no such queue: nothing has died yet that would be in it. A token
    that may move need not be one that may count."""
    try:
        access.describe_queue(source)
    except MQError as error:
        return exit_code_of(error) is not ExitCode.NOT_FOUND
    return True


def _refuse_both(limit: int | None, ids: tuple[MessageId, ...]) -> None:
    if limit is not None and ids:
        raise click.UsageError("--max and --id do not go together; drop one")


def _move(
    access: Access, moves: Sequence[QueueMove], limit: int | None, ids: tuple[MessageId, ...]
) -> tuple[int, list[str]]:
    """Make these moves one after the other. Returns how many were moved, and which stay because
    their ids are taken. If it is cut short, stderr says how many were moved by then."""
    bar = ProgressBar("moving", len(ids) if ids else limit)
    try:
        with bar:
            if ids:
                _move_by_id(access, moves, ids, bar)
                return bar.done, []
            taken = []
            for move in moves:
                left = None if limit is None else limit - bar.done
                if left != 0:
                    move_all = _move_ready if move.died_in is None else _move_dead
                    taken += move_all(access, move, left, bar)
            return bar.done, taken
    except KeyboardInterrupt:
        moved = messages_text(bar.done)
        click.echo(f"moved {moved} by then; what was under way may be moved too", err=True)
        raise
    except MQError:
        if bar.done:
            click.echo(f"moved {messages_text(bar.done)} by then", err=True)
        raise


def _move_by_id(
    access: Access, moves: Sequence[QueueMove], ids: tuple[MessageId, ...], bar: ProgressBar
) -> None:
    for number, message_id in enumerate(ids, 1):
        for move in moves:
            try:
                # A message that is named is moved wherever it died.
                access.move_by_id(move._replace(died_in=None), message_id)
                break
            except MQError as error:
                if move is moves[-1] or _kind_of(error) != _GONE:
                    raise
        bar.tell(number)


def _move_ready(access: Access, move: QueueMove, limit: int | None, bar: ProgressBar) -> list[str]:
    """Move ready messages. Returns the ids of those that stay."""
    # Even of an empty queue one is asked for, so that a missing target is reported.
    left = max(1, access.describe_queue(move.source).ready) if limit is None else limit
    bar.total = end = bar.done + left
    some, taken = 1, dict[str, None]()
    while some and bar.done < end:
        some, stay = access.move(move, min(end - bar.done, MAX_MOVES))
        bar.tell(bar.done + some)
        taken |= dict.fromkeys(stay)
    return list(taken)


def _move_dead(access: Access, move: QueueMove, limit: int | None, bar: ProgressBar) -> list[str]:
    """Move ready messages that died in one queue, out of a queue to which others may send theirs
    too. Returns the ids of those that stay."""
    taken = list[str]()
    found = access.peek(move.source, access.describe_queue(move.source).ready)
    # All are found first: one with an own id that has left the queue says no more where it was.
    ids = list(islice(_ids_of_dead(found, move.died_in), limit))
    bar.total = bar.done + len(ids)
    for message_id in ids:
        try:
            access.move_by_id(move, message_id)
        except MQError as error:
            kind = _kind_of(error)
            if kind not in (_TAKEN, _GONE):
                raise
            taken += [message_id] if kind == _TAKEN else []
        else:
            bar.tell(bar.done + 1)
    return taken


def _ids_of_dead(
    messages: Iterable[ShownMessage], died_in: QueueName | None
) -> Iterator[MessageId]:
    for message in messages:
        message.body.close()
        if message.dead_from == died_in:
            yield MessageId(message.message_id)


def _kind_of(error: MQError) -> str:
    """Return the type of a problem, of a server's answer or of an error of the store."""
    problem = getattr(error.__cause__, "problem", None)
    return _KINDS.get(type(error), "") if problem is None else problem.type


def _say_what_stays(moved: int, taken: list[str], target: QueueName) -> None:
    """Say which messages stay. Raises CommandFailed if there was nothing else to be moved."""
    if not taken:
        return
    text = (
        f"not moved: {messages_text(len(taken))}, because queue {target} has others with their "
        f"ids; the first is {taken[0]}"
    )
    if not moved:
        raise CommandFailed(ExitCode.REFUSED, text)
    click.echo(printable(text), err=True)
