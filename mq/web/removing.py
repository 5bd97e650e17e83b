"""Remove over HTTP: one message, or several at once."""

from __future__ import annotations

import json

from aiohttp import web

from mq.config import MAX_REMOVALS
from mq.errors import InvalidRequest, MQError
from mq.lines.ndjson import MEDIA_TYPE
from mq.names import MessageId, parse_message_id, parse_message_ids
from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.parameters import Target, read_leases
from mq.web.problems import PROBLEMS, problem_document


async def remove(store: Store, request: web.BaseRequest, target: Target) -> Answer:
    leases = read_leases(request)
    if "," not in target.message_id:
        await store.remove(target.queue, parse_message_id(target.message_id), leases)
        return Answer(202)
    ids = _read_ids(target.message_id)
    outcomes = await store.remove_many(target.queue, ids, leases)
    if not any(outcomes):
        return Answer(202)
    lines = b"".join(_line(*each) for each in zip(ids, outcomes, strict=True))
    return Answer(207, {"Content-Type": MEDIA_TYPE}, lines)


def _read_ids(text: str) -> list[MessageId]:
    count = text.count(",") + 1
    if count > MAX_REMOVALS:
        raise InvalidRequest(f"{count} ids; one request removes at most {MAX_REMOVALS}")
    return parse_message_ids(text)


def _line(message_id: MessageId, error: MQError | None) -> bytes:
    outcome: dict[str, object] = {"status": 202}
    if error is not None:
        outcome = problem_document(PROBLEMS[type(error)], str(error))
    return json.dumps({"id": message_id} | outcome).encode() + b"\n"
