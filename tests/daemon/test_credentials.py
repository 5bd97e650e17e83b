"""Reading credentials again: whatever goes wrong, there is a next time."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mq.config import ServerConfig
from mq.daemon.credentials import Credentials
from mq.daemon.notify import Notifier
from mq.daemon.server import _reload_forever


async def test_reloading_goes_on_after_an_error_that_nobody_foresaw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an error is a thread that cannot be started: a token that is taken away later must be
    refused, and systemd must not wait for a reload that is over."""
    reload_now = asyncio.Event()
    read: list[bool] = []

    class CredentialFiles(Credentials):
        def reload(self) -> None:
            read.append(True)
            if len(read) == 1:
                raise RuntimeError("can't start new thread")

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(100)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        task = asyncio.create_task(
            _reload_forever(reload_now, CredentialFiles(ServerConfig()), Notifier())
        )
        try:
            for _ in range(2):
                reload_now.set()
                for told in (b"RELOADING=1", b"READY=1"):
                    assert (await asyncio.to_thread(systemd.recv, 4096)).startswith(told)
            assert (len(read), task.done()) == (2, False)
        finally:
            task.cancel()
