"""What lies among the messages of a FIFO queue and cannot be one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.message.seal import Seal
from tests.support.fifo import LINE, fifo_on
from tests.support.messages import write_message
from tests.support.users import NOBODY, needs_root


def _plant_folder(path: Path) -> None:
    path.mkdir()


def _plant_another_users(path: Path) -> None:
    path.write_bytes(b"theirs")
    os.chown(path, NOBODY, NOBODY)


def _plant_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@needs_root
@pytest.mark.parametrize("is_loaded", [False, True], ids=["at the start", "later"])
@pytest.mark.parametrize("plant", [_plant_folder, _plant_another_users, _plant_link, os.mkfifo])
async def test_what_is_no_message_under_the_name_of_one_keeps_nobody_waiting(
    root: Path, plant: Callable[[Path], None], is_loaded: bool
) -> None:
    async with fifo_on(root) as line:
        await line.send("1")
        if not is_loaded:
            plant(root / "queues" / LINE / "-")
    async with fifo_on(root) as line:
        if is_loaded:
            await line.send("2", "b")
            plant(root / "queues" / LINE / "-")

        async with asyncio.timeout(20):
            await line.send("3", "c")
            assert {*await line.bodies(10)} >= {"1", "3"}


@pytest.mark.parametrize("seal", [
    Seal((1 << 64) - 1, 1, 2, 3, 4, 5, 6, 7),
    Seal(1 << 63, 1, 2, 3, 0, (1 << 32) - 1, 6, 7),
    Seal(1, 1, (1 << 64) - 1, (1 << 32) - 1, 0, (1 << 32) - 1, 6, (1 << 64) - 1),
])  # fmt: skip
@pytest.mark.parametrize("place", [f"queues/{LINE}/0", f"delay/{LINE}:0", f"remove/{LINE}:0"])
async def test_a_seal_that_names_lengths_beyond_all_files_costs_its_message_alone(
    root: Path, place: str, seal: Seal
) -> None:
    async with fifo_on(root) as line:
        await line.send("1")
    write_message(root / place, b"damaged", seal=seal)
    with (root / place).open("r+b") as file:
        file.truncate((1 << 32) + 7)

    async with fifo_on(root) as line:
        await line.send("2", "b")
        found = await line.bodies(10) + await line.bodies(10)
        assert {*found} >= {"1", "2"}
