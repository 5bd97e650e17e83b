"""The admin listener: whether the server is alive and ready, how much it does, and the page.

`/livez`, `/readyz`, `/openapi.json` and the page at `/` say nothing about queues and need no token.
`/metrics`, `/queues` and `/events` name queues: where there are tokens they need one with the scope
read for every queue. `/api/QUEUE...` is what the main port answers at `/QUEUE...`, with the same
tokens; without `--admin-write` only what changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from importlib.resources import files

from aiohttp import web

from mq import __version__
from mq.admin.live import Live, Look, Row
from mq.admin.metrics import ChildCounts, activity_by_queue, render
from mq.admin.page import PAGES
from mq.config import SECOND_NS
from mq.errors import Forbidden, MQError, StoreUnavailable, Unauthorized
from mq.lifecycle import Folder
from mq.metrics.tally import DoneInQueue
from mq.store.health import StoreHealth
from mq.store.survey import QueueSurvey
from mq.web.answers import OUR_HEADERS, ROOT_ID, HttpHandler, Response
from mq.web.connections.presence import unless_client_leaves
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.problems import (
    METHOD_NOT_ALLOWED,
    READ_ONLY,
    UNKNOWN_PATH,
    error_response,
    problem_response,
)
from mq.web.routes import find, is_look
from mq.web.tokens import Scope, Tokens

_METHODS = ("GET", "HEAD")
_API = "/api/"
_TOTALS = ("published", "received", "removed", "redelivered", "dead_lettered")
_EVENT_STREAM = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", **OUR_HEADERS}
"""nginx would keep events back until a buffer is full."""
_STARTING = "the server is starting: it opens and sweeps its root"


AdminHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Admin:
    """The endpoints of the admin listener. They answer from the first moment on: `health` and
    `api` are None until the store is open. `children` are those of `--standalone`, and count for
    this server. With `may_write`, anyone who may use the main port may do the same here.
    """

    def __init__(
        self,
        tokens: Tokens | None,
        durations: Durations,
        origins: OriginPolicy,
        *,
        root: str,
        may_write: bool,
    ) -> None:
        self.health: StoreHealth | None = None
        self.api: HttpHandler | None = None
        self.is_stopping = False
        self.children: ChildCounts | None = None
        self._tokens = tokens
        self._durations = durations
        self._origins = origins
        self._may_write = may_write
        about = {"version": __version__, "root": root, "may_write": may_write}
        self._live = Live(about, self._look)
        self.paths: Mapping[str, AdminHandler] = {
            "/livez": self._tell_life,
            "/readyz": self._tell_readiness,
            "/metrics": self._tell_metrics,
            "/queues": self._tell_queues,
            "/openapi.json": self._tell_api,
            "/events": self._tell_events,
            **dict.fromkeys(PAGES, self._show_page),
        }

    def stop(self) -> None:
        """Report at `/readyz` that the server stops, and let all viewers go."""
        self.is_stopping = True
        self._live.stop()

    async def handle(self, request: web.BaseRequest) -> Response:
        """Answer a request; this is the handler for `mq.web.connections.http_server.HttpServer`."""
        try:
            response = await self._answer(request)
        except MQError as error:
            response = error_response(error)
        if isinstance(response, web.StreamResponse) and not response.prepared:
            for name, value in OUR_HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _answer(self, request: web.BaseRequest) -> Response:
        self._origins.check_target(request)
        path = request.rel_url.raw_path
        if path.startswith(_API):
            return await self._answer_api(request)
        self._origins.check_reading(request)
        tell = self.paths.get(path)
        if tell is None:
            there = ", ".join((*(each for each in self.paths if each not in PAGES), f"{_API}QUEUE"))
            detail = f"there are {there}; queues and messages are on the main port, that of --port"
            return problem_response(UNKNOWN_PATH, detail)
        if request.method not in _METHODS:
            allowed = ", ".join(_METHODS)
            detail = f"this path takes {allowed}"
            return problem_response(METHOD_NOT_ALLOWED, detail, {"Allow": allowed})
        return await tell(request)

    async def _answer_api(self, request: web.BaseRequest) -> Response:
        """Answer as the main port does, which checks everything itself."""
        if self.api is None:
            raise StoreUnavailable(_STARTING)
        target = "/" + request.rel_url.raw_path_qs.removeprefix(_API)
        found = find(target)
        if not self._may_write and not (found and is_look(request.method, found)):
            return problem_response(
                READ_ONLY, "start mq with --admin-write to change queues here, or use the main port"
            )
        # Anything else may have the beginning of a URL with a host, even of a broken one: `//[`.
        return await self.api(request.clone(rel_url=target if found else "/"))

    async def _show_page(self, request: web.BaseRequest) -> web.Response:
        page = PAGES[request.rel_url.raw_path]
        return web.Response(body=page.body, headers=page.headers)

    async def _tell_events(self, request: web.BaseRequest) -> web.StreamResponse:
        self._require_read(request)
        if self.health is None:
            raise StoreUnavailable(_STARTING)
        self._live.require_room()
        response = web.StreamResponse(headers=_EVENT_STREAM)
        await response.prepare(request)
        if request.method == "GET":
            # A look may hang, and a viewer that leaves meanwhile must not keep its place. One that
            # closed looks like one that closed its own direction, until something is sent to it.
            watching = asyncio.create_task(self._pass_on(request, response))
            await unless_client_leaves(request, watching, watching.cancel)
        response.force_close()
        return response

    async def _pass_on(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        async with aclosing(self._live.events()) as events:
            async for event in events:
                if not self._may_read(request):
                    break  # The token was taken away.
                await response.write(event)

    async def _look(self) -> Look:
        """Look at all queues once. Raises OSError."""
        assert self.health is not None
        survey = await self.health.survey()
        nothing = DoneInQueue()
        activity = activity_by_queue(self.health.counts, self.children)
        queues = {
            name: _row(found, activity.get(name, nothing)) for name, found in survey.queues.items()
        }
        totals = {name: sum(getattr(each, name) for each in activity.values()) for name in _TOTALS}
        totals["corrupt"] = survey.files.get(Folder.CORRUPT, 0)
        # The counters are of this moment; the survey may be an older one.
        trouble = await self._why_not_ready()
        return Look(time.time(), queues, totals, trouble, self.health.paused_queues())

    async def _tell_life(self, request: web.BaseRequest) -> web.Response:
        if self.health is not None and not self.health.is_alive():
            raise StoreUnavailable("the server has a defect and must be restarted")
        if self.health is not None and self.health.moved is not None:
            raise StoreUnavailable(self.health.moved)
        return web.Response(text="alive\n")

    async def _tell_readiness(self, request: web.BaseRequest) -> web.Response:
        reason = await self._why_not_ready()
        if reason is not None:
            raise StoreUnavailable(reason)
        return web.Response(text="ready\n")

    async def _why_not_ready(self) -> str | None:
        if self.is_stopping:
            return "the server is stopping"
        if self.health is None:
            return _STARTING
        if self.health.failure is not None:
            return self.health.failure
        try:
            return await self.health.find_trouble() or await self.health.find_shortage()
        except OSError as error:
            return f"the root cannot be looked at: {error.strerror}"

    async def _tell_metrics(self, request: web.BaseRequest) -> web.Response:
        self._require_read(request)
        with _looking_at_the_root():
            body, content_type = await render(
                self.health,
                self._durations,
                request.headers.get("Accept", ""),
                self.children,
            )
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _tell_queues(self, request: web.BaseRequest) -> web.Response:
        self._require_read(request)
        if self.health is None:
            raise StoreUnavailable(_STARTING)
        with _looking_at_the_root():
            survey = await self.health.survey()
        paused = set(self.health.paused_queues())
        documents = [
            {
                "queue": name,
                "ready": queue.ready,
                "leased": queue.leased,
                "delayed": queue.delayed,
                "oldest_age_seconds": queue.age_seconds(survey.time_ns),
                "paused": name in paused,
            }
            for name, queue in sorted(survey.queues.items())
        ]
        body = json.dumps(documents).encode() + b"\n"
        headers = {ROOT_ID: self.health.root_id}
        return web.Response(body=body, content_type="application/json", headers=headers)

    def _require_read(self, request: web.BaseRequest) -> None:
        if self._tokens is not None:
            self._tokens.authenticate(request).require(Scope.READ, None)

    def _may_read(self, request: web.BaseRequest) -> bool:
        try:
            self._require_read(request)
        except (Unauthorized, Forbidden):
            return False
        return True

    async def _tell_api(self, request: web.BaseRequest) -> web.Response:
        return web.Response(
            body=files("mq.web").joinpath("openapi.json").read_bytes(),
            content_type="application/json",
        )


def _row(found: QueueSurvey, done: DoneInQueue) -> Row:
    oldest = _seconds(found.oldest_ns)
    return (found.ready, found.leased, found.delayed, oldest, done.published, done.removed)


def _seconds(time_ns: int | None) -> float | None:
    """Return a time in seconds since 1970, to the millisecond."""
    return None if time_ns is None else round(time_ns / SECOND_NS, 3)


@contextmanager
def _looking_at_the_root() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the root cannot be looked at: {error.strerror}") from error
