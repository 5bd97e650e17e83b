"""Signals that a program handles itself, beside a worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.processes import Server

PROGRAMS = {
    "a handler of the process": """
import asyncio, os, signal, sys
from mq.client import Client

def heed(*given): print("heeded", flush=True)

signal.signal(signal.SIGUSR1, heed)
with Client(sys.argv[1]) as mq:
    orders = mq.queue("signals")
    orders.create()
    worker = orders.worker(print)
    worker.stop()
    worker.run(signals=[signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
""",
    "a handler of the event loop": """
import asyncio, os, signal, sys
from mq.client import AsyncClient

async def main():
    heeded = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heeded.set)
    async with AsyncClient(sys.argv[1]) as mq:
        orders = mq.queue("signals")
        await orders.create()
        worker = orders.worker(asyncio.sleep)
        worker.stop()
        await worker.run(signals=[signal.SIGUSR1])
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(heeded.wait(), 10)
    print("heeded")

asyncio.run(main())
""",
    "a handler of the event loop, and the worker": """
import asyncio, os, signal, sys
from mq.client import AsyncClient

async def main():
    heeded = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heeded.set)
    async with AsyncClient(sys.argv[1]) as mq:
        orders = mq.queue("signals")
        await orders.create()
        await orders.publish("one")

        async def handle(message):
            os.kill(os.getpid(), signal.SIGUSR1)

        await orders.worker(handle).run(signals=[signal.SIGUSR1])
        await asyncio.wait_for(heeded.wait(), 10)
        await orders.delete()
    print("heeded")

asyncio.run(main())
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_does_with_a_signal_outlives_a_worker(server: Server, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[name], server.url],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("heeded\n", "")
