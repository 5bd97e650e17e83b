"""The server process: bind, open the store, serve, reload, and stop in order."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import asdict, replace
from typing import NamedTuple

import structlog
import uvloop

from mq import __version__
from mq.admin.endpoints import Admin
from mq.admin.listener import AdminServer
from mq.config import ServerConfig
from mq.daemon.credentials import Credentials
from mq.daemon.listeners import bind
from mq.daemon.notify import Notifier, beat_forever
from mq.daemon.signals import handle_signals, ignore_signals, leave_when_asked
from mq.daemon.sockets import Listener
from mq.daemon.standalone import Children, Supervision, run_children
from mq.disk import calls
from mq.errors import ExitCode, StartRefused
from mq.metrics.tally import ServerCounts, shared_counts
from mq.store.background import running
from mq.store.counts import OperationCounts
from mq.store.opening import open_store
from mq.store.store import Store
from mq.web.api import make_api
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy, origin_policy_of
from mq.web.quick.way import make_http

SHUTDOWN_SECONDS = 10.0
"""How long a stopping server waits for a request to finish."""

RESERVED_DESCRIPTORS = 4096
"""Descriptors that are kept for files, at most half of all; each connection takes two others."""

MIN_DESCRIPTORS = 64
"""With fewer a server does not start: it has some 30 open before the first client comes."""

MAX_ADMIN_CONNECTIONS = 100
"""How many connections the admin listener has at once."""

log = structlog.get_logger(__name__)

_TURN_SECONDS = 0.0005
"""For how long a thread may run Python while another one waits for its turn. While a worker looks
at a long queue, the event loop may wait for as long after each of its system calls; Python's own
5 ms are as long as fifty requests."""

_GARBAGE_THRESHOLD = 20_000
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1 << 20
_CUT_OFF_SECONDS = 0.5
"""How long a request that is cut off has to notice it."""


class Front(NamedTuple):
    """What a front needs, which is the part that speaks to clients: the open store, limits, who is
    let in, and where it records how long requests took."""

    store: Store
    limits: Limits
    credentials: Credentials
    durations: Durations
    origins: OriginPolicy


FrontMaker = Callable[[Front], AbstractAsyncContextManager[HttpServer]]
"""What speaks to clients, from before the first one comes until the last one is answered."""


@asynccontextmanager
async def make_api_front(front: Front) -> AsyncIterator[HttpServer]:
    """Serve the six endpoints."""
    yield make_http(
        front.store, front.limits, front.credentials.tokens, front.durations, front.origins
    )


def serve(
    config: ServerConfig,
    children: Supervision | None = None,
    make_front: FrontMaker = make_api_front,
) -> None:
    """Serve with what `make_front` returns until SIGTERM or SIGINT. `children` run beside it.

    To stop, it takes no new connections, answers the requests under way, and finishes all commits.
    Raises StartRefused.
    """
    if sys.platform != "linux":
        raise StartRefused(ExitCode.SYSTEM, f"MQ serves on Linux only; this is {sys.platform}")
    os.umask(0o777 & ~config.mode)
    _give_memory_back()
    config = replace(config, max_connections=_bound_connections(config.max_connections))
    sys.setswitchinterval(_TURN_SECONDS)
    uvloop.run(_serve(config, children, make_front))


def _give_memory_back() -> None:
    """Return large pieces of memory to the system when they are freed. The C library would
    otherwise keep ever larger ones, separately for each worker (mallopt(3))."""
    with suppress(AttributeError):  # The C library is another one.
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _bound_connections(asked: int) -> int:
    """Take all descriptors that the system allows, and keep some of them for files. Returns how
    many connections the others are enough for, at most `asked`. Raises StartRefused."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MIN_DESCRIPTORS:
        raise StartRefused(
            ExitCode.SYSTEM,
            f"the system allows this process {hard} open files, and a server needs at least "
            f"{MIN_DESCRIPTORS}; raise the limit, with ulimit -n or LimitNOFILE= of the unit",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return asked
    most = max(1, (hard - min(RESERVED_DESCRIPTORS, hard // 2)) // 2)
    if 0 < asked <= most:
        return asked
    log.warning("fewer connections than asked for", descriptors=hard, connections=most)
    return most


async def _serve(
    config: ServerConfig,
    supervision: Supervision | None,
    make_front: FrontMaker,
) -> None:
    _log_configuration(config, supervision)
    stop, reload_now = asyncio.Event(), asyncio.Event()
    handle_signals(stop, reload_now)
    notifier = Notifier()
    credentials = Credentials(config)
    shared = shared_counts(ServerCounts)
    durations = Durations(shared)
    origins = origin_policy_of(config)
    admin = Admin(
        credentials.tokens,
        durations,
        origins,
        root=str(config.root),
        may_write=config.admin_write,
    )
    limits, admin_limits = _limits_of(config)
    async with AsyncExitStack() as stack:
        listeners = bind(config, credentials.certificate)
        stack.callback(listeners.close)
        watching = await stack.enter_async_context(AsyncExitStack())
        await watching.enter_async_context(
            _serving("admin", listeners.admin, AdminServer(admin.handle, admin_limits))
        )
        async with running(leave_when_asked(stop)):
            opening = open_store(config, counts=OperationCounts(shared))
            store = await stack.enter_async_context(opening)
        # Nobody asks a store that is closed.
        stack.push_async_callback(watching.aclose)
        if supervision is not None:
            children = await stack.enter_async_context(run_children(config, supervision, stop))
            _adopt(children, admin, credentials)
        front = Front(store, limits, credentials, durations, origins)
        api = await stack.enter_async_context(make_front(front))
        beat = beat_forever(notifier, store.health.probe, store.health.is_alive)
        reload = _reload_forever(reload_now, credentials, notifier)
        await stack.enter_async_context(running(beat, reload))
        # They end in reverse order: accept no more and answer, then the children, then the store.
        await stack.enter_async_context(_serving("listening", listeners.api, api))
        admin.health = store.health
        # What a person does there does not belong in the metrics.
        admin.api = make_api(store, credentials.tokens, Durations(), origins)
        _calm_garbage_collector()
        notifier.ready()
        await stop.wait()
        log.info("stopping")
        store.stop_waiting()
        admin.stop()
        notifier.stopping()
    await ignore_signals()
    log.info("stopped")


def _limits_of(config: ServerConfig) -> tuple[Limits, Limits]:
    """Return the limits of the API and of the admin listener."""
    api = Limits(config.max_connections, config.header_timeout_seconds, config.body_timeout_seconds)
    most = min(config.max_connections or MAX_ADMIN_CONNECTIONS, MAX_ADMIN_CONNECTIONS)
    return api, api._replace(max_connections=most)


def _adopt(children: Children, admin: Admin, credentials: Credentials) -> None:
    """Show what the children count, and let the gateway read its keys again with the server."""
    admin.children = children.counts
    if children.gateway is not None:
        credentials.reload_too("gateway for SQS", children.gateway.reload)


def _log_configuration(config: ServerConfig, supervision: Supervision | None) -> None:
    settings = asdict(config) | {
        "min_free_bytes": "default" if config.min_free_bytes is None else config.min_free_bytes,
        "mode": f"{config.mode:o}",
        "socket_mode": f"{config.socket_mode:o}",
        "admin": str(config.admin or ""),
        "allowed_hosts": ",".join(config.allowed_hosts),
        "native_part": calls.STATE,
    }
    log.info("configuration", version=__version__, standalone=supervision is not None, **settings)


def _calm_garbage_collector() -> None:
    """Tune the garbage collector: it looks only at what requests leave, not at what is loaded by
    now, and not at every 700th object.

    Publishing on tmpfs at 64 connections is 1.1 times as fast with it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)


@asynccontextmanager
async def _serving(event: str, listeners: list[Listener], http: HttpServer) -> AsyncIterator[None]:
    """Accept connections until the block ends. Then accept no more, answer, and cut off requests
    that take longer than SHUTDOWN_SECONDS."""
    for listener in listeners:
        await listener.serve(http)
        log.info(event, url=listener.url)
    async with running(http.cut_off_unread_forever()):
        try:
            yield
        finally:
            for listener in listeners:
                listener.close()
            await http.drain(SHUTDOWN_SECONDS)
            await http.shutdown(_CUT_OFF_SECONDS)


async def _reload_forever(
    reload_now: asyncio.Event, credentials: Credentials, notifier: Notifier
) -> None:
    while True:
        await reload_now.wait()
        reload_now.clear()
        notifier.reloading()
        try:
            await asyncio.to_thread(credentials.reload)
        except Exception:
            # Whatever the error is, the next SIGHUP must be heard: it may take a token away.
            log.exception("not reloaded; the old one stays")
        finally:
            notifier.ready()
