"""The API as one function from request to response. Every error leaves it as problem+json."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

from aiohttp import web

from mq.errors import BodyUnreadable, MQError
from mq.names import QueueName, parse_queue_name
from mq.store.store import Store
from mq.web.answers import OUR_HEADERS, ROOT_ID, HttpHandler, Response
from mq.web.connections.quick_connection import raise_handed_over, start_of
from mq.web.connections.strangers import end_if_unknown, note_known
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.parameters import Target, path_and_query, read_parameters
from mq.web.problems import (
    DEFECT,
    METHOD_NOT_ALLOWED,
    UNKNOWN_PATH,
    error_response,
    problem_response,
)
from mq.web.routes import Found, find
from mq.web.tokens import Tokens


def _anything(_queue: QueueName) -> None:
    """Allow what is asked for: there are no tokens."""


def make_api(
    store: Store, tokens: Tokens | None, durations: Durations, origins: OriginPolicy
) -> HttpHandler:
    """Return the handler for `mq.web.connections.http_server.HttpServer`. Without `tokens` anyone
    may do anything. `durations` records how long each request took; `origins` knows the server's
    names."""

    async def handle(request: web.BaseRequest) -> Response:
        started = start_of(request)
        found = find(path_and_query(request))
        try:
            raise_handed_over(request)
            response = await _answer(store, tokens, origins, request, found)
        except MQError as error:
            response = error_response(error)
            if isinstance(error, BodyUnreadable):
                response.force_close()
            _let_go(error)
        except ConnectionError:
            raise  # The client went away in the middle of its answer.
        except Exception:
            durations.observe(found, request.method, DEFECT.status, perf_counter() - started)
            raise
        _complete(response)
        durations.observe(found, request.method, response.status, perf_counter() - started)
        return response

    return handle


def _let_go(error: BaseException | None) -> None:
    """Drop the frames that an error, and those before it, come from. They hold what was refused,
    such as a whole batch or half a body, and what the error is held by: together they would stay in
    memory until the garbage collector comes for them."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


def _complete(response: Response) -> None:
    """Complete the answer, unless its head is sent already."""
    if isinstance(response, web.StreamResponse) and not response.prepared:
        response.headers.update(OUR_HEADERS)


async def _answer(
    store: Store,
    tokens: Tokens | None,
    origins: OriginPolicy,
    request: web.BaseRequest,
    found: Found | None,
) -> Response:
    # This comes before anything is looked at: a request without a token learns nothing about what
    # exists.
    token = None
    try:
        origins.check(request)
        origins.check_target(request)
        if tokens is not None:
            token = tokens.authenticate(request)
            note_known(request)
    except MQError:
        if tokens is not None:
            end_if_unknown(request)
        raise
    if found is None:
        return problem_response(
            UNKNOWN_PATH,
            "queues are at /QUEUE, messages at /QUEUE/messages and /QUEUE/messages/ID; the page and"
            " health have a port of their own, that of --admin",
            {ROOT_ID: store.health.root_id},
        )
    queue = parse_queue_name(found.queue)
    route = found.resource.get(request.method)
    if route is None:
        allowed = ", ".join(found.resource)
        detail = f"this path takes {allowed}" + found.hint(request.method)
        return problem_response(METHOD_NOT_ALLOWED, detail, {"Allow": allowed})
    parameters = read_parameters(found.query, route.parameters, route.lists)
    require_allowed: Callable[[QueueName], object] = _anything
    if token is not None:
        require_allowed = partial(token.require, route.scope_with(parameters))
        for each in route.queues_with(queue, parameters):
            require_allowed(each)
    target = Target(queue, found.message_id, parameters, require_allowed)
    return await route.handler(store, request, target)
