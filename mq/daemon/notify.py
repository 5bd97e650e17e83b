"""What systemd is told: the server is ready, reloads, stops, or still does its work.

See sd_notify(3). If anything else has started the process, all of this does nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable

import structlog

from mq.errors import StoreUnavailable

log = structlog.get_logger(__name__)


class Notifier:
    """Tells systemd. It takes systemd's variables out of the environment, so that no child tells
    systemd anything in this process's place."""

    def __init__(self) -> None:
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        interval = os.environ.pop("WATCHDOG_USEC", "")
        process = os.environ.pop("WATCHDOG_PID", str(os.getpid()))
        is_ours = interval.isdigit() and process == str(os.getpid()) and bool(self._address)
        self.watchdog_seconds = int(interval) / 1_000_000 if is_ours else 0.0

    def ready(self) -> None:
        self._send("READY=1")

    def reloading(self) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def beat(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("systemd not told", state=state.partition("\n")[0], error=str(error))


async def beat_forever(
    notifier: Notifier, probe: Callable[[], Awaitable[None]], is_alive: Callable[[], bool]
) -> None:
    """Beat twice in each interval of the watchdog. Each beat shows that a probe file has gone the
    whole way of a publish in that time: event loop, committer, write, sync, unlink.

    A probe that is refused in time counts too: a restart mends neither a full disk nor a store that
    reopens itself after a failed sync, and `/readyz` reports those. The watchdog is for a probe
    that does not come back, for one that fails by a defect each time, and for a committer that has
    ended.
    """
    pause = notifier.watchdog_seconds / 2
    while pause:
        started = time.monotonic()
        task = asyncio.ensure_future(probe())
        try:
            while not (await asyncio.wait({task}, timeout=pause))[0]:
                log.error("no beat for the watchdog: the probe file is not written yet")
        finally:
            task.cancel()
        error = task.exception()
        if error is not None and not isinstance(error, StoreUnavailable):
            log.error("no beat for the watchdog: the probe failed", exc_info=error)
        elif is_alive() and time.monotonic() - started <= notifier.watchdog_seconds:
            notifier.beat()
        await asyncio.sleep(max(0.0, started + pause - time.monotonic()))
