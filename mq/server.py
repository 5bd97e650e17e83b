"""The server process: open the store, bind, serve, stop in order."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, replace

import structlog
import uvloop
from aiohttp import web

from mq import __version__
from mq.config import SHUTDOWN_SECONDS, ServerConfig
from mq.errors import ExitCode, StartRefused
from mq.standalone import run_children
from mq.store.room import default_floor_bytes
from mq.store.store import Store
from mq.store.upkeep import open_store
from mq.web.api import make_api
from mq.web.connection import HttpServer

log = structlog.get_logger(__name__)

_BACKLOG = 1024
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
    log.info("configuration", version=__version__, standalone=keep_seconds is not None,
             **asdict(config) | {"mode": f"{config.mode:o}"})  # fmt: skip
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config))
        http = HttpServer(make_api(store))
        runner = web.ServerRunner(http, shutdown_timeout=_CUT_OFF_SECONDS)
        await runner.setup()
        port = await _listen(runner, config)
        if keep_seconds is not None:
            await stack.enter_async_context(run_children(config, keep_seconds))
        # Last in, first out: stop accepting and answer, then the children, then the store.
        stack.push_async_callback(_stop_serving, runner, http, store)
        _calm_garbage_collector()
        log.info("listening", url=f"http://{_host(config.address)}:{port}")
        await stop.wait()
        log.info("stopping")
    log.info("stopped")


def _calm_garbage_collector() -> None:
    """What is loaded by now stays: look only at what requests leave, and not at every 700th object.

    Publish on tmpfs at 64 connections: 1.1 times as many a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)


async def _stop_serving(runner: web.ServerRunner, http: HttpServer, store: Store) -> None:
    """No new connections; then answer; then cut off whoever takes longer than SHUTDOWN_SECONDS."""
    for site in list(runner.sites):
        await site.stop()
    store.stop_waiting()
    await http.drain(SHUTDOWN_SECONDS)
    await runner.cleanup()


async def _listen(runner: web.ServerRunner, config: ServerConfig) -> int:
    """Bind; returns the port."""
    try:
        await web.TCPSite(runner, config.address, config.port, backlog=_BACKLOG).start()
    except OSError as error:
        raise StartRefused(
            ExitCode.UNAVAILABLE,
            f"cannot listen on {config.address} port {config.port}: "
            f"{os.strerror(error.errno) if error.errno and error.errno > 0 else error}; "
            "stop what listens there or choose another --port or --address",
        ) from error
    return int(runner.addresses[0][1])


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
