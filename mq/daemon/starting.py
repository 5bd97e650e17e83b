"""How a server is stopped that has not opened its root yet."""

from __future__ import annotations

import asyncio
import os

import structlog

from mq.errors import ExitCode

OPENING_STOP_SECONDS = 2.0
"""How long a server that is asked to stop still has to open its root. If it is open by then, the
clients that wait are answered before the stop."""

log = structlog.get_logger(__name__)


async def leave_when_asked(stop: asyncio.Event) -> None:
    """End the process some time after `stop` is set. This runs beside the opening of a root, whose
    file system may never answer; a thread that waits for that cannot be ended in another way. A
    start may be killed anywhere, so nothing is lost."""
    await stop.wait()
    await asyncio.sleep(OPENING_STOP_SECONDS)
    log.warning("stopped before the root was open")
    os._exit(ExitCode.OK)
