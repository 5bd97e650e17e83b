"""What a server does by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.commit.group import GroupCommitter
from mq.disk.files import Files
from mq.spool.network_files import NetworkFiles
from tests.support.stores import store_on


async def test_a_server_stops_though_a_sweep_is_asked_for_at_that_moment(disk: Path) -> None:
    for turns in range(6):
        async with asyncio.timeout(30):
            async with store_on(disk) as store:
                store._work.request_sweep()
                for _ in range(turns):
                    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("files_of", "peers", "makes_rounds"),
    [
        (lambda _: Files(), 0, True),
        (lambda _: Files(), 1, True),
        (NetworkFiles, 0, False),
    ],
    ids=["alone", "beside other servers", "on a network"],
)
async def test_the_event_loop_makes_fast_rounds_unless_the_network_can_hold_it_up(
    disk: Path, files_of: Callable[[Path], Files], peers: int, makes_rounds: bool
) -> None:
    async with store_on(disk, files_of(disk), peers=peers) as store:
        committer = store._committer
        assert isinstance(committer, GroupCommitter)

        assert (committer._loop_rounds is not None) == makes_rounds
