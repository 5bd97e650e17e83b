"""What signals do to a server: while its root is opened, while it serves, and at its end."""

from __future__ import annotations

import asyncio
import os
import signal

import structlog

from mq.errors import ExitCode

OPENING_STOP_SECONDS = 2.0
"""How long a server that is asked to stop still has to open its root. If it is open by then, the
clients that wait are answered before the stop."""

log = structlog.get_logger(__name__)


def handle_signals(stop: asyncio.Event, reload_now: asyncio.Event) -> None:
    """Let SIGTERM and SIGINT set `stop`, and SIGHUP `reload_now`."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # A shell starts background jobs with SIGINT ignored: Ctrl-C is not meant for them.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload_now.set)


async def leave_when_asked(stop: asyncio.Event) -> None:
    """End the process some time after `stop` is set. This runs beside the opening of a root, whose
    file system may never answer; a thread that waits for that cannot be ended in another way. A
    start may be killed anywhere, so nothing is lost."""
    await stop.wait()
    await asyncio.sleep(OPENING_STOP_SECONDS)
    log.warning("stopped before the root was open")
    os._exit(ExitCode.OK)


async def ignore_signals() -> None:
    """Let one more signal do no harm. The event loop would give all of them their defaults back
    when it is closed, and any other thread can take a signal that this one blocks."""
    loop, signals = asyncio.get_running_loop(), {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    await loop.shutdown_default_executor()
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    for each in signals:
        loop.remove_signal_handler(each)
        signal.signal(each, signal.SIG_IGN)
