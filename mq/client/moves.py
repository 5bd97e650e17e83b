"""Moving messages from one queue to another, as generators that both clients run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from mq.client import arguments
from mq.client.answers import read_failures, unexpected
from mq.client.arguments import MOST_BYTES_OF_IDS, split_ids
from mq.client.by_id import if_match
from mq.client.errors import ClientError, IdTaken, LeaseLost, MessageNotFound, TooOld
from mq.client.messages import Delivery
from mq.client.retries import Context, ask
from mq.client.wire import Operation, Request, ServerAnswer, json_in
from mq.config import MAX_MOVES
from mq.names import QueueName

_MOVED = frozenset({200, 207})
"""The statuses of a move: of all messages, or of those that the lines of the answer name."""


def move(
    context: Context, target: QueueName, source: QueueName, most: int, reason: str | None
) -> Operation[tuple[int, list[str]]]:
    """Move the oldest ready messages of `source`. Returns how many were moved, and the ids of those
    that stay because the target has other messages with these ids. If the answer of a try is lost,
    those that it moved are not counted."""
    given = _query(source, reason, {"max": most})
    request = Request("POST", f"/{target}/messages?{given}", is_repeatable=False)
    return _read_moved((yield from ask(context, request)))


def move_many(
    context: Context,
    target: QueueName,
    source: QueueName,
    ids: Iterable[str],
    reason: str | None,
    *,
    lease: str | None = None,
    died_in: str | None = None,
) -> Operation[dict[str, ClientError]]:
    """Move messages by their ids. Returns those that were not moved, each with the reason. With a
    lease, only a message that has it is moved; with `died_in` only those that died there are."""
    failed: dict[str, ClientError] = {}
    only = {} if died_in is None else {"dead-from": died_in}
    room = MOST_BYTES_OF_IDS - len(_query(source, reason, only))
    for some in split_ids(ids, MAX_MOVES, room):
        given = _query(source, reason, {"id": ",".join(some)} | only)
        request = Request(
            "POST", f"/{target}/messages?{given}", headers=if_match(lease), done=_MOVED
        )
        try:
            answer = yield from ask(context, request, (MessageNotFound,) if len(some) == 1 else ())
        except (LeaseLost, MessageNotFound, IdTaken, TooOld) as error:
            # The answer for a single id has no lines.
            failed[some[0]] = error
            continue
        if answer.status == 207:
            failed |= read_failures(answer, some)
        elif answer.status == 200:
            _read_moved(answer)
    return failed


def move_delivery(
    context: Context, delivery: Delivery, target: QueueName, reason: str | None
) -> Operation[None]:
    """Move a message under its lease. Raises LeaseLost if that is not the current one, or the
    message is gone."""
    lease, source = delivery.lease, delivery.queue
    failed = yield from move_many(context, target, source, [delivery.id], reason, lease=lease)
    for error in failed.values():
        if isinstance(error, MessageNotFound):
            raise LeaseLost(str(error), error.problem)
        raise error


def _query(source: QueueName, reason: str | None, which: Mapping[str, str | int]) -> str:
    if reason is not None:
        arguments.text("reason", reason)
    given = {"from": source, **which}
    return urlencode(given if reason is None else {**given, "reason": reason}, safe=",")


def _read_moved(answer: ServerAnswer) -> tuple[int, list[str]]:
    try:
        document = json_in(answer.body)
        return int(document["moved"]), [str(each) for each in document.get("taken", ())]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise unexpected("does not say how many messages were moved") from None
