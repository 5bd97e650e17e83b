"""Peek over HTTP: look and change nothing. The lease is not shown, because it belongs to its
holder."""

from __future__ import annotations

from aiohttp import web

from mq.config import DEFAULT_CONTENT_TYPE, MAX_ANSWER_MESSAGES
from mq.errors import InvalidRequest
from mq.lifecycle import SHOWN_STATES, State
from mq.lines.ndjson import write_members
from mq.names import parse_message_id
from mq.store.answer_memory import Share
from mq.store.peeking.peeked_message import PeekedMessage
from mq.store.store import Store
from mq.times import rfc3339
from mq.web.answers import Answer, Response, lines_of
from mq.web.burials import burial_fields, burial_headers
from mq.web.downloads import answer_body, answer_lines
from mq.web.parameters import Target, read_count, refuse_together
from mq.web.properties import property_headers


async def peek(store: Store, request: web.BaseRequest, target: Target) -> Response:
    with store.answer_memory.share() as share:
        return await _peek(store, request, target, share)


async def _peek(store: Store, request: web.BaseRequest, target: Target, share: Share) -> Response:
    parameters = target.parameters
    refuse_together(parameters, "peek", "wait", "visibility", "then")
    refuse_together(parameters, "id", "max", "after", "state")
    state = _read_state(parameters)
    limit = read_count(parameters, "max", MAX_ANSWER_MESSAGES)
    if "id" in parameters:
        message_id = parse_message_id(parameters["id"])
        found = [await store.peek_at(target.queue, message_id)]
    else:
        after = parse_message_id(parameters["after"]) if "after" in parameters else None
        found = await store.peek(target.queue, limit or 1, after, share, state)
    if not found:
        return Answer(204)
    if limit is not None:
        members = [write_members(_fields(each)) for each in found]
        return await answer_lines(store, request, found, members, share)
    return await answer_body(store, request, found[0], lines_of(_headers(found[0])))


def _read_state(parameters: dict[str, str]) -> State:
    """Return the state to show. Raises InvalidRequest if queues show no messages in it."""
    text = parameters.get("state", State.READY)
    if text not in SHOWN_STATES:
        raise InvalidRequest(f"parameter state={text!r}: give one of {', '.join(SHOWN_STATES)}")
    return State(text)


def _headers(peeked: PeekedMessage) -> dict[str, str]:
    headers = {
        "X-Message-Id": peeked.message_id,
        "Content-Type": peeked.content_type or DEFAULT_CONTENT_TYPE,
        "X-State": peeked.state,
        "X-Published-At": rfc3339(peeked.published_ns),
    }
    if peeked.visible_ns is not None:
        headers["X-Visible-At"] = rfc3339(peeked.visible_ns)
    if peeked.receive_count is not None:
        headers["X-Receive-Count"] = str(peeked.receive_count)
    if peeked.is_damaged:
        headers["X-Damaged"] = "yes"
    headers.update(property_headers(peeked.properties))
    if peeked.burial is not None:
        headers |= burial_headers(peeked.burial)
    return headers


def _fields(peeked: PeekedMessage) -> dict[str, object]:
    return {
        "id": peeked.message_id,
        "content_type": peeked.content_type,
        "properties": dict(peeked.properties) or None,
        "state": peeked.state,
        "receive_count": peeked.receive_count,
        "published_at": rfc3339(peeked.published_ns),
        "visible_at": None if peeked.visible_ns is None else rfc3339(peeked.visible_ns),
        "damaged": True if peeked.is_damaged else None,
        **burial_fields(peeked.burial),
    }
