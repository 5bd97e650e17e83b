"""`mq --standalone`: a mover and a reaper as supervised children.

A child that ends is started again, with backoff. None outlives its parent: the kernel kills it,
even while it is stopped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import structlog

from mq.command.flags import PARENT_VARIABLE
from mq.config import ServerConfig
from mq.lifecycle import Folder
from mq.metrics.tally import TALLY_VARIABLE, MoverCounts, ReaperCounts, Tally

log = structlog.get_logger(__name__)

CHILD_BACKOFF_SECONDS = (0.5, 30.0)
"""First and longest pause before a child that ended is started again."""

CHILD_STOP_SECONDS = 5.0
"""How long a child has between SIGTERM and SIGKILL."""


class Children(NamedTuple):
    """What they have counted."""

    mover: MoverCounts
    reaper: ReaperCounts


@asynccontextmanager
async def run_children(config: ServerConfig, keep_seconds: float) -> AsyncIterator[Children]:
    """Keep a mover and a reaper on `config.root` running until the block ends."""
    root, logs = config.root, f"--log-format={config.log_format}"
    mover = [
        "mq_mover",
        f"--source={root / Folder.DELAY}",
        f"--destination={root / Folder.QUEUES}",
        f"--max-receives={config.max_receives}",
        logs,
    ]
    reaper = ["mq_reaper", f"--source={root / Folder.REMOVE}", f"--keep={keep_seconds}", logs]
    moves, reaps = Tally(MoverCounts), Tally(ReaperCounts)
    tasks = [
        asyncio.create_task(_keep_running(mover, moves.fd)),
        asyncio.create_task(_keep_running(reaper, reaps.fd)),
    ]
    try:
        yield Children(moves.counts, reaps.counts)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        moves.close()
        reaps.close()


async def _keep_running(arguments: list[str], tally_fd: int) -> None:
    shortest, longest = CHILD_BACKOFF_SECONDS
    pause = shortest
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        end = await _run(arguments, tally_fd)
        if loop.time() - started > longest:
            pause = shortest
        log.error("child ended; starting it again", child=arguments[0], end=end, pause=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)


async def _run(arguments: list[str], tally_fd: int) -> str:
    """Run a child to its end; returns what that was."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[tally_fd],
            env=os.environ
            | {PARENT_VARIABLE: str(os.getpid()), TALLY_VARIABLE: str(tally_fd)},
        )  # fmt: skip
    except OSError as error:
        return f"not started: {error.strerror}"
    try:
        return f"exit {await process.wait()}"
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, and SIGKILL if that is not enough."""
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), CHILD_STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
