"""The six endpoints, and the way from a request to one of them.

aiohttp's router would answer HEAD where GET is, and knows no problem+json. Three shapes of path
need no router.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from aiohttp import web

from mq.names import QueueName, is_queue_name
from mq.spool.queue.queue_settings import SETTINGS
from mq.store.store import Store
from mq.web.answers import Response
from mq.web.endpoints import moving, publishing, queues, receiving, removing
from mq.web.parameters import Target
from mq.web.tokens import Scope

Handler = Callable[[Store, web.BaseRequest, Target], Awaitable[Response]]


class Route(NamedTuple):
    """One method of a path, and the scope that a token needs for it.

    `parameters` are those it takes; None means that the query is ignored. Those in `lists` may be
    given more than once. `scopes` has another scope for a parameter that makes the request do
    something else. `others` are the parameters that name more queues, which the token must be for
    too.
    """

    handler: Handler
    scope: Scope
    parameters: frozenset[str] | None = frozenset()
    scopes: Mapping[str, Scope] = {}
    lists: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()

    def scope_with(self, parameters: Mapping[str, str]) -> Scope:
        """Return the scope that a request with these parameters needs."""
        return next((self.scopes[name] for name in parameters if name in self.scopes), self.scope)

    def queues_with(self, queue: QueueName, parameters: Mapping[str, str]) -> list[QueueName]:
        """Return the queues that a request with these parameters is about. What is not the name of
        a queue is left to its handler."""
        others = [each for name in self.others for each in parameters.get(name, "").split(",")]
        return [queue, *(QueueName(each) for each in others if is_queue_name(each))]


Resource = Mapping[str, Route]

QUEUE: Resource = {
    "GET": Route(queues.describe_queue, Scope.READ),
    "HEAD": Route(queues.describe_queue, Scope.READ),
    "PUT": Route(
        queues.create_queue,
        Scope.ADMIN,
        frozenset(SETTINGS),
        lists=publishing.QUEUES,
        others=queues.NAME_OTHERS,
    ),
    "DELETE": Route(queues.delete_queue, Scope.ADMIN, frozenset({"purge"})),
}
MESSAGES: Resource = {
    "GET": Route(
        receiving.receive,
        Scope.WRITE,
        receiving.PARAMETERS,
        {"peek": Scope.READ},
        receiving.QUEUES,
        others=receiving.QUEUES,
    ),
    "POST": Route(
        publishing.publish,
        Scope.WRITE,
        publishing.PARAMETERS,
        lists=moving.IDS | publishing.QUEUES,
        others=publishing.QUEUES | {moving.SOURCE},
    ),
}
MESSAGE: Resource = {
    "DELETE": Route(removing.remove, Scope.WRITE),
}
QUEUE_PATH = "/{queue}"
MESSAGES_PATH = "/{queue}/messages"
MESSAGE_PATH = "/{queue}/messages/{id}"
"""Each path as the OpenAPI document and the metrics write it."""

RESOURCES: Mapping[str, Resource] = {
    QUEUE_PATH: QUEUE,
    MESSAGES_PATH: MESSAGES,
    MESSAGE_PATH: MESSAGE,
}


class Found(NamedTuple):
    """A known path, and which of RESOURCES it belongs to. Its names are unchecked, its query is
    unread."""

    path: str
    queue: str
    message_id: str
    query: str

    @property
    def resource(self) -> Resource:
        return RESOURCES[self.path]

    def hint(self, method: str) -> str:
        """Return the end of a sentence that says where that method does what was probably meant."""
        if method in self.resource:
            return ""
        if method == "POST":
            return f"; messages are published by POST to /{self.queue}/messages"
        messages = f"/{self.queue}/messages"
        look = f"GET of {messages}?peek&id={self.message_id}"
        hints = {
            (MESSAGE_PATH, "GET"): f"{look} shows that message, and without 'peek' receives it",
            (MESSAGE_PATH, "PUT"): f"POST to {messages} with X-Message-Id publishes under that id",
            (MESSAGES_PATH, "PUT"): "messages are published by POST, queues made by PUT of "
            f"/{self.queue}",
            (MESSAGES_PATH, "DELETE"): f"DELETE of {messages}/ID removes one, DELETE of "
            f"/{self.queue}?purge all, and the queue stays",
        }
        hint = hints.get((self.path, method))
        return "" if hint is None else f"; {hint}"


def find(raw_path: str) -> Found | None:
    """Match the path as it came over the wire. Returns None if there is nothing at it.

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
            return Found(MESSAGES_PATH, queue, "", query)
        case ["", queue, "messages", message_id]:
            return Found(MESSAGE_PATH, queue, message_id, query)
        case ["", queue]:
            return Found(QUEUE_PATH, queue, "", query)
    return None


def is_look(method: str, found: Found) -> bool:
    """Return whether a request changes nothing, whatever its query turns out to be."""
    if method not in ("GET", "HEAD"):
        return False
    names = {part.partition("=")[0] for part in found.query.split("&")}
    return found.path == QUEUE_PATH or (found.path == MESSAGES_PATH and "peek" in names)
