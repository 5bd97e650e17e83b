"""The six endpoints, and from a request to one of them. aiohttp's router would answer HEAD where
GET is, and knows no problem+json; three path shapes need no router."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from aiohttp import web

from mq.store.store import Store
from mq.web import publishing, queues, receiving, removing
from mq.web.parameters import Target

Handler = Callable[[Store, web.BaseRequest, Target], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """One method of a path. `parameters` are those it takes; None means the query is ignored."""

    handler: Handler
    parameters: frozenset[str] | None = frozenset()


Resource = Mapping[str, Route]

QUEUE: Resource = {
    "GET": Route(queues.describe_queue),
    "HEAD": Route(queues.describe_queue),
    "PUT": Route(queues.create_queue, parameters=None),
    "DELETE": Route(queues.delete_queue),
}
MESSAGES: Resource = {
    "GET": Route(receiving.receive, receiving.PARAMETERS),
    "POST": Route(publishing.publish, publishing.PARAMETERS),
}
MESSAGE: Resource = {
    "DELETE": Route(removing.remove),
}
RESOURCES: Mapping[str, Resource] = {
    "/{queue}": QUEUE,
    "/{queue}/messages": MESSAGES,
    "/{queue}/messages/{id}": MESSAGE,
}


class Found(NamedTuple):
    """A path of ours: names still unchecked, the query still unread."""

    resource: Resource
    queue: str
    message_id: str
    query: str


def find(raw_path: str) -> Found | None:
    """Match the path as it came over the wire; None if there is nothing at it.

    Percent escapes are decoded after the split, so `a%2Fb` is a bad name, never two segments.
    """
    path, _, query = raw_path.partition("?")
    segments = path.split("/")
    if segments[0] or "" in segments[1:]:
        return None
    if "%" in path:
        segments = [unquote(segment) for segment in segments]
    match segments:
        case ["", queue, "messages"]:
            return Found(MESSAGES, queue, "", query)
        case ["", queue, "messages", message_id]:
            return Found(MESSAGE, queue, message_id, query)
        case ["", queue]:
            return Found(QUEUE, queue, "", query)
    return None
