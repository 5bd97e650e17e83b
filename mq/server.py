"""The server process: bind, open the store, serve, reload, stop in order."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import structlog
import uvloop

from mq import __version__
from mq.config import SHUTDOWN_SECONDS, ServerConfig
from mq.credentials import Credentials
from mq.errors import ExitCode, StartRefused
from mq.listeners import bind
from mq.notify import Notifier, beat_forever
from mq.standalone import run_children
from mq.store.room import default_floor_bytes
from mq.store.upkeep import open_store
from mq.web.admin import Admin
from mq.web.api import make_api
from mq.web.connection import HttpServer, Limits
from mq.web.durations import Durations
from mq.web.listen import Listener

log = structlog.get_logger(__name__)

_GARBAGE_THRESHOLD = 20_000
_CUT_OFF_SECONDS = 0.5
"""How long a request that is cut off has to notice it."""


def serve(config: ServerConfig, keep_seconds: float | None = None) -> None:
    """Serve until SIGTERM or SIGINT. With `keep_seconds` a mover and a reaper run beside.

    Stopping: no new connections, requests under way are answered, commits finish. Raises
    StartRefused.
    """
    if sys.platform != "linux":
        raise StartRefused(ExitCode.SYSTEM, f"MQ serves on Linux only; this is {sys.platform}")
    if config.min_free_bytes is None:
        config = replace(config, min_free_bytes=default_floor_bytes(config.root))
    os.umask(0o777 & ~config.mode)
    _raise_descriptor_limit()
    uvloop.run(_serve(config, keep_seconds))


def _raise_descriptor_limit() -> None:
    """A descriptor for each connection and for each publish of a batch: all the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(config: ServerConfig, keep_seconds: float | None) -> None:
    _log_configuration(config, keep_seconds)
    stop, reload_now = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload_now.set)
    notifier = Notifier()
    credentials = Credentials(config)
    durations = Durations()
    admin = Admin(credentials.tokens, durations)
    limits = Limits(
        config.max_connections, config.header_timeout_seconds, config.body_timeout_seconds
    )
    async with AsyncExitStack() as stack:
        listeners = bind(config, credentials.tls)
        stack.callback(listeners.close)
        await stack.enter_async_context(
            _serving("admin", listeners.admin, HttpServer(admin.handle, limits))
        )
        store = await stack.enter_async_context(open_store(config))
        if keep_seconds is not None:
            await stack.enter_async_context(run_children(config, keep_seconds))
        api = HttpServer(make_api(store, credentials.tokens, durations), limits)
        beat = beat_forever(notifier, store.condition.probe, store.condition.is_alive)
        reload = _reload_forever(reload_now, credentials, notifier)
        await stack.enter_async_context(_running(beat, reload))
        # Last in, first out: stop accepting and answer, then the children, then the store.
        await stack.enter_async_context(_serving("listening", listeners.api, api))
        admin.condition = store.condition
        _calm_garbage_collector()
        notifier.ready()
        await stop.wait()
        log.info("stopping")
        store.stop_waiting()
        admin.is_stopping = True
        notifier.stopping()
    log.info("stopped")


def _log_configuration(config: ServerConfig, keep_seconds: float | None) -> None:
    settings = asdict(config) | {
        "mode": f"{config.mode:o}",
        "socket_mode": f"{config.socket_mode:o}",
        "admin": str(config.admin or ""),
    }
    log.info("configuration", version=__version__, standalone=keep_seconds is not None, **settings)


def _calm_garbage_collector() -> None:
    """What is loaded by now stays: look only at what requests leave, and not at every 700th object.

    Publish on tmpfs at 64 connections: 1.1 times as many a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)


@asynccontextmanager
async def _serving(event: str, listeners: list[Listener], http: HttpServer) -> AsyncIterator[None]:
    """Accept until the block ends. Then no new connections; then answer; then cut off whoever
    takes longer than SHUTDOWN_SECONDS."""
    for listener in listeners:
        await listener.listen(http)
        log.info(event, url=listener.url)
    try:
        yield
    finally:
        for listener in listeners:
            listener.close()
        await http.drain(SHUTDOWN_SECONDS)
        await http.shutdown(_CUT_OFF_SECONDS)


@asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run beside the block, and no longer than it."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _reload_forever(
    reload_now: asyncio.Event, credentials: Credentials, notifier: Notifier
) -> None:
    while True:
        await reload_now.wait()
        reload_now.clear()
        notifier.reloading()
        await asyncio.to_thread(credentials.reload)
        notifier.ready()
