"""`mq --standalone`: a mover, a reaper, and the gateway for SQS, as supervised children.

A child that ends is started again, with backoff. None outlives its parent: the kernel kills it,
even while it is stopped.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from mq.admin.metrics import ChildCounts
from mq.command.running import PARENT_VARIABLE
from mq.config import Address, ServerConfig
from mq.daemon.sockets import free_port
from mq.lifecycle import Folder
from mq.metrics.tally import TALLY_VARIABLE, MoverCounts, ReaperCounts, ServerCounts, Tally
from mq.store.background import running

log = structlog.get_logger(__name__)

CHILD_BACKOFF_SECONDS = (0.5, 30.0)
"""The first and the longest pause before a child that ended is started again."""

CHILD_STOP_SECONDS = 5.0
"""How long a child has between SIGTERM and SIGKILL."""


class Supervision(NamedTuple):
    """The children of the server. The reaper keeps removed messages for `keep_seconds`. With
    `sqs_port` the gateway for SQS runs too, and listens there; 0 is any port, which stays the same
    when the gateway is started again."""

    keep_seconds: float
    sqs_port: int | None = None


class Child:
    """A process that is started again whenever it ends."""

    def __init__(self, arguments: list[str], tally_fd: int | None = None) -> None:
        self._arguments = arguments
        self._tally_fd = tally_fd
        self._process: asyncio.subprocess.Process | None = None

    def reload(self) -> None:
        """Let it read its files again, if it runs. One that is just starting, or is started later,
        reads them anyway."""
        process = self._process
        if process is not None and process.returncode is None and _hears_hangup(process.pid):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGHUP)

    async def keep_running(self, stop: asyncio.Event) -> None:
        """Start it again whenever it ends, until `stop` is set. Ctrl-C and service managers stop
        the server and its children at once, and the server answers what is under way."""
        shortest, longest = CHILD_BACKOFF_SECONDS
        pause = shortest
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            started = loop.time()
            end = await self._run()
            if stop.is_set():
                return
            if loop.time() - started > longest:
                pause = shortest
            child = self._arguments[0]
            log.error("child ended; starting it again", child=child, end=end, pause=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _run(self) -> str:
        """Run it to its end. Returns how it ended."""
        tally_fd = self._tally_fd
        tally = {} if tally_fd is None else {TALLY_VARIABLE: str(tally_fd)}
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[] if tally_fd is None else [tally_fd],
                env=os.environ | {PARENT_VARIABLE: str(os.getpid())} | tally,
            )  # fmt: skip
        except OSError as error:
            return f"not started: {error.strerror}"
        self._process = process
        try:
            return f"exit {await process.wait()}"
        finally:
            await _stop(process)


class Children(NamedTuple):
    """What the children have counted, and the gateway if it runs."""

    counts: ChildCounts
    gateway: Child | None


def _hears_hangup(pid: int) -> bool:
    """Return whether a process has a handler for SIGHUP: until then the signal would end it. See
    proc_pid_status(5)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = status.partition("\nSigCgt:")[2].partition("\n")[0]
    return bool(int(caught, 16) >> (signal.SIGHUP - 1) & 1)


@asynccontextmanager
async def run_children(
    config: ServerConfig, supervision: Supervision, stop: asyncio.Event
) -> AsyncIterator[Children]:
    """Run a mover and a reaper on `config.root`, and the gateway, until the block ends. Once `stop`
    is set, one that ends is not started again."""
    root, logs = config.root, f"--log-format={config.log_format}"
    mover = [
        "mq_mover",
        f"--source={root / Folder.DELAY}",
        f"--destination={root / Folder.QUEUES}",
        f"--max-receives={config.max_receives}",
        logs,
    ]
    keep = f"--keep={supervision.keep_seconds}"
    reaper = ["mq_reaper", f"--source={root / Folder.REMOVE}", keep, logs]
    moves, reaps, serves = Tally(MoverCounts), Tally(ReaperCounts), Tally(ServerCounts)
    children, gateway = [Child(mover, moves.fd), Child(reaper, reaps.fd)], None
    if supervision.sqs_port is not None:
        port = supervision.sqs_port or free_port(Address(gateway_host(config), 0))
        gateway = Child(gateway_arguments(config, port), serves.fd)
        children.append(gateway)
    counts = ChildCounts(moves.counts, reaps.counts, serves.counts)
    try:
        async with running(*[each.keep_running(stop) for each in children]):
            yield Children(counts, gateway)
    finally:
        for tally in (moves, reaps, serves):
            tally.close()


def gateway_arguments(config: ServerConfig, port: int) -> list[str]:
    """Return the command line of the gateway for SQS. It listens on the server's addresses, and
    lets in the same clients."""
    flags = {
        "root": config.root,
        "address": gateway_host(config),
        "port": port,
        "admin": "off",
        "workers": config.workers,
        "peers": config.peers,
        "visibility": config.visibility_seconds,
        "max-receives": config.max_receives,
        "max-queue-messages": config.max_queue_messages,
        "max-connections": config.max_connections,
        "header-timeout": config.header_timeout_seconds,
        "body-timeout": config.body_timeout_seconds,
        "min-free": config.min_free_bytes,
        "mode": f"{config.mode:o}",
        "token-file": config.token_file,
        "cert": config.cert,
        "key": config.key,
        "allowed-host": ",".join(config.allowed_hosts),
        "log-format": config.log_format,
    }
    given = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    reuse_port, insecure = ["--reuse-port"] * config.reuse_port, ["--insecure"] * config.insecure
    return ["mq_sqs", *given, *reuse_port, *insecure]


def gateway_host(config: ServerConfig) -> str:
    """Return where the gateway listens: a server may have a unix socket alone."""
    return config.address or ServerConfig().address


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM, and SIGKILL if that is not enough."""
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), CHILD_STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
