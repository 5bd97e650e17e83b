"""The admin listener: whether the server is alive and ready, and how much it does.

`/livez`, `/readyz` and `/openapi.json` tell nothing of any queue and need no token. `/metrics` and
`/queues` name queues: where there are tokens they need one with the scope read for every queue.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files

from aiohttp import web

from mq.errors import MQError, StoreUnavailable
from mq.store.condition import Condition
from mq.web.answers import OUR_HEADERS
from mq.web.durations import Durations
from mq.web.metrics import render
from mq.web.problems import METHOD_NOT_ALLOWED, UNKNOWN_PATH, error_response, problem_response
from mq.web.tokens import Scope, Tokens

_METHODS = ("GET", "HEAD")

AdminHandler = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Admin:
    """Answers from the first moment on: `condition` is None until the store is open."""

    def __init__(self, tokens: Tokens | None, durations: Durations) -> None:
        self.condition: Condition | None = None
        self.is_stopping = False
        self._tokens = tokens
        self._durations = durations
        self.paths: Mapping[str, AdminHandler] = {
            "/livez": self._tell_life,
            "/readyz": self._tell_readiness,
            "/metrics": self._tell_metrics,
            "/queues": self._tell_queues,
            "/openapi.json": self._tell_api,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The handler for `mq.web.connection.HttpServer`."""
        try:
            response = await self._answer(request)
        except MQError as error:
            response = error_response(error)
        response.headers.update(OUR_HEADERS)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        tell = self.paths.get(request.rel_url.raw_path)
        if tell is None:
            return problem_response(UNKNOWN_PATH, f"there are {', '.join(self.paths)}")
        if request.method not in _METHODS:
            allowed = ", ".join(_METHODS)
            detail = f"this path takes {allowed}"
            return problem_response(METHOD_NOT_ALLOWED, detail, {"Allow": allowed})
        return await tell(request)

    async def _tell_life(self, request: web.BaseRequest) -> web.Response:
        if self.condition is not None and not self.condition.is_alive():
            raise StoreUnavailable("the server has a defect and must be restarted")
        return web.Response(text="alive\n")

    async def _tell_readiness(self, request: web.BaseRequest) -> web.Response:
        reason = await self._why_not_ready()
        if reason is not None:
            raise StoreUnavailable(reason)
        return web.Response(text="ready\n")

    async def _why_not_ready(self) -> str | None:
        if self.is_stopping:
            return "the server is stopping"
        if self.condition is None:
            return "the server is starting: it opens and sweeps its root"
        if self.condition.failure is not None:
            return self.condition.failure
        try:
            return await self.condition.find_shortage()
        except OSError as error:
            return f"the root cannot be looked at: {error.strerror}"

    async def _tell_metrics(self, request: web.BaseRequest) -> web.Response:
        self._require_read(request)
        with _looking_at_the_root():
            body, content_type = await render(
                self.condition, self._durations, request.headers.get("Accept", "")
            )
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _tell_queues(self, request: web.BaseRequest) -> web.Response:
        self._require_read(request)
        if self.condition is None:
            raise StoreUnavailable("the server is starting: it opens and sweeps its root")
        with _looking_at_the_root():
            survey = await self.condition.survey()
        documents = [
            {
                "queue": name,
                "ready": queue.ready,
                "leased": queue.leased,
                "delayed": queue.delayed,
                "oldest_age_seconds": queue.age_seconds(survey.time_ns),
            }
            for name, queue in sorted(survey.queues.items())
        ]
        body = json.dumps(documents).encode() + b"\n"
        return web.Response(body=body, content_type="application/json")

    def _require_read(self, request: web.BaseRequest) -> None:
        if self._tokens is not None:
            self._tokens.authenticate(request).require(Scope.READ, None)

    async def _tell_api(self, request: web.BaseRequest) -> web.Response:
        return web.Response(
            body=files("mq.web").joinpath("openapi.json").read_bytes(),
            content_type="application/json",
        )


@contextmanager
def _looking_at_the_root() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the root cannot be looked at: {error.strerror}") from error
