"""Remove over HTTP: one message, or several at once."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from mq.config import MAX_REMOVALS
from mq.errors import InvalidRequest, MQError
from mq.names import MessageId, parse_message_id, parse_message_ids
from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.parameters import Target, read_leases
from mq.web.problems import answer_outcomes


async def remove(store: Store, request: web.BaseRequest, target: Target) -> Answer:
    leases = read_leases(request)
    if "," not in target.message_id:
        await store.remove(target.queue, parse_message_id(target.message_id), leases)
        return Answer(202)
    ids = read_ids(target.message_id)
    return answer_removed(ids, await store.remove_many(target.queue, ids, leases))


def answer_removed(ids: Sequence[MessageId], outcomes: Sequence[MQError | None]) -> Answer:
    """Answer with what became of several messages."""
    return answer_outcomes(ids, outcomes, 202) if any(outcomes) else Answer(202)


def read_ids(text: str) -> list[MessageId]:
    """Return the ids of several messages. Raises InvalidName, InvalidRequest."""
    count = text.count(",") + 1
    if count > MAX_REMOVALS:
        raise InvalidRequest(f"{count} ids; one request removes at most {MAX_REMOVALS}")
    return parse_message_ids(text)
