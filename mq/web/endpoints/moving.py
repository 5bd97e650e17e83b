"""Move messages from one queue to another, over HTTP: `POST /TARGET/messages?from=SOURCE`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aiohttp import web

from mq.config import MAX_MOVES
from mq.errors import InvalidRequest
from mq.names import (
    MAX_DEAD_REASON_BYTES,
    MessageId,
    is_dead_reason,
    parse_message_id,
    parse_queue_name,
)
from mq.store.moving.move import Moving
from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.bodies import has_body
from mq.web.parameters import Target, read_count, read_guard, refuse_guard, refuse_together
from mq.web.problems import answer_outcomes

SOURCE = "from"
DEAD_FROM = "dead-from"
PARAMETERS = frozenset({SOURCE, "max", "id", "reason", DEAD_FROM})
IDS = frozenset({"id"})
"""Parameters that may be given more than once."""


async def move(store: Store, request: web.BaseRequest, target: Target) -> Answer:
    parameters = target.parameters
    refuse_together(parameters, SOURCE, "batch", "delay", "also", "removes")
    refuse_together(parameters, "id", "max")
    source = parse_queue_name(parameters[SOURCE])
    died_in = parse_queue_name(parameters[DEAD_FROM]) if DEAD_FROM in parameters else None
    moving = Moving(source, target.queue, _read_reason(parameters), died_in)
    guard = read_guard(request)
    await _refuse_message(request)
    if "id" not in parameters:
        refuse_guard(request)
        if died_in is not None:
            raise InvalidRequest(f"parameter {DEAD_FROM}: it goes with 'id'")
        moved = await store.move(moving, read_count(parameters, "max", MAX_MOVES) or MAX_MOVES)
        told: dict[str, object] = {"moved": moved.number}
        return _answer(told | {"taken": moved.taken} if moved.taken else told)
    ids = _read_ids(parameters["id"])
    outcomes = await store.move_by_id(moving, ids, guard)
    if not any(outcomes):
        return _answer({"moved": len(ids)})
    if len(ids) == 1 and outcomes[0] is not None:
        raise outcomes[0]
    return answer_outcomes(ids, outcomes, 200)


def _read_reason(parameters: dict[str, str]) -> str | None:
    reason = parameters.get("reason")
    if reason is not None and not is_dead_reason(reason):
        raise InvalidRequest(
            f"parameter reason={reason[:40]!r}: give 1 to {MAX_DEAD_REASON_BYTES} printable "
            "characters of ASCII, without space at the ends"
        )
    return reason


async def _refuse_message(request: web.BaseRequest) -> None:
    """Refuse a request with a message in it: its client meant to publish."""
    if "X-Message-Id" in request.headers:
        raise InvalidRequest("header X-Message-Id does not go with 'from'; name messages with 'id'")
    if await has_body(request):
        raise InvalidRequest("a move takes no body; without the parameter 'from' it is published")


def _read_ids(text: str) -> Sequence[MessageId]:
    ids = list(dict.fromkeys(parse_message_id(each) for each in text.split(",")))
    if len(ids) > MAX_MOVES:
        raise InvalidRequest(f"{len(ids)} ids; one request moves at most {MAX_MOVES}")
    return ids


def _answer(document: dict[str, object]) -> Answer:
    return Answer(200, {"Content-Type": "application/json"}, json.dumps(document).encode() + b"\n")
