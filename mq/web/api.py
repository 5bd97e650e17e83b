"""The API as one function from request to response; whatever goes wrong leaves as problem+json."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from mq.errors import BodyUnreadable, MQError
from mq.names import parse_queue_name
from mq.store.store import Store
from mq.web.parameters import Target, read_parameters
from mq.web.problems import (
    METHOD_NOT_ALLOWED,
    UNKNOWN_PATH,
    error_response,
    problem_response,
)
from mq.web.routes import find


def make_api(store: Store) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """The handler for `mq.web.connection.HttpServer`."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await _answer(store, request)
        except MQError as error:
            response = error_response(error)
            if isinstance(error, BodyUnreadable):
                response.force_close()
        if not response.prepared:
            response.headers["Cache-Control"] = "no-store"
            response.headers["Server"] = "mq"
            if "Expect" in request.headers and not request.content.is_eof():
                # The client may never send the body it announced.
                response.force_close()
        return response

    return handle


async def _answer(store: Store, request: web.BaseRequest) -> web.StreamResponse:
    raw_path = request.raw_path
    if not raw_path.startswith("/"):
        # The absolute form, as proxies send it (RFC 9112, section 3.2.2).
        raw_path = request.rel_url.raw_path_qs
    found = find(raw_path)
    if found is None:
        return problem_response(
            UNKNOWN_PATH, "queues are at /QUEUE, messages at /QUEUE/messages and /QUEUE/messages/ID"
        )
    queue = parse_queue_name(found.queue)
    route = found.resource.get(request.method)
    if route is None:
        allowed = ", ".join(found.resource)
        return problem_response(
            METHOD_NOT_ALLOWED, f"this path takes {allowed}", {"Allow": allowed}
        )
    parameters = read_parameters(found.query, route.parameters)
    return await route.handler(store, request, Target(queue, found.message_id, parameters))
