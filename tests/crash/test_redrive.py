"""A redrive killed midway: each message is in one queue, and the next redrive ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.messages import names_in, write_message
from tests.support.mqctl import Ctl, without_ours
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire

MANY = (5_000, 20_000, 80_000)
"""This many take mqctl long enough to be met in the middle; or more do, if the machine was so busy
that the kill came too late."""


@pytest.mark.parametrize("killed", ["mqctl over HTTP", "the server", "mqctl on the folders"])
def test_a_killed_redrive_leaves_each_message_in_one_queue(
    start_server: Callable[..., Server], root: Path, killed: str
) -> None:
    assert any(_meet(start_server(root=root / f"{many}"), killed, many) for many in MANY)


def _meet(server: Server, killed: str, many: int) -> bool:
    """Kill a redrive, and return whether that came in the middle."""
    wire = Wire(server.port)
    for name in ("orders", "orders.dead"):
        assert wire.request("PUT", f"/{name}").status == 201
    wire.close()
    queue, dead = (server.root / "queues" / name for name in ("orders", "orders.dead"))
    ids = {f"{0x1800000000000000 + number:016x}" for number in range(many)}
    for message_id in ids:
        write_message(dead / message_id, message_id.encode())
    over_http, on_folders = f"--url={server.url}", f"--root={server.root}"
    way = on_folders if killed.endswith("folders") else over_http

    redrive = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "redrive", "orders", way],
        stderr=subprocess.DEVNULL, env=without_ours(),
    )  # fmt: skip
    wait_until(lambda: len(os.listdir(queue)) > 100)
    (server if killed == "the server" else redrive).kill()
    redrive.wait(30)
    if killed == "mqctl over HTTP":
        server.stop()  # it ends the request that was under way

    moved, left = set(names_in(queue)), set(names_in(dead))
    assert (moved | left, moved & left) == (ids, set())
    # Killed on the one way, ended on the other.
    Ctl(over_http if way == on_folders else on_folders).ok("redrive", "orders")
    assert (set(names_in(queue)), names_in(dead)) == (ids, [])
    return bool(moved and left)
