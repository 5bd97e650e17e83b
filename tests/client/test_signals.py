"""Signals that a program handles itself, beside a worker, and signals that come twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from mq.client.signals import SAME_SIGNAL_SECONDS, stopping_on
from tests.support.processes import Server

BOTH = (signal.SIGUSR1, signal.SIGUSR2)

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
    "one signal, and the workers of several queues": """
import asyncio, os, signal, sys
from mq.client import AsyncClient

async def main():
    async with AsyncClient(sys.argv[1]) as mq:
        queues = [mq.queue(name) for name in ("signals", "more.signals")]
        for each in queues:
            await each.create()
        await queues[0].publish("one")

        async def handle(message):
            os.kill(os.getpid(), signal.SIGTERM)

        working = asyncio.gather(*(each.worker(handle).run() for each in queues))
        await asyncio.wait_for(working, 30)
        for each in queues:
            await each.delete()
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


@pytest.fixture
def heeded() -> Iterator[list[int]]:
    """The signals of BOTH that had the effect that is usual here."""
    numbers: list[int] = []
    before = {each: signal.signal(each, lambda number, _: numbers.append(number)) for each in BOTH}
    yield numbers
    for each, handler in before.items():
        signal.signal(each, handler)


def test_signals_that_come_at_once_stop_once(
    heeded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[None] = []
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    with stopping_on(BOTH, lambda: stops.append(None), lambda: 7.0):
        signal.pthread_sigmask(signal.SIG_BLOCK, BOTH)
        for each in BOTH:
            os.kill(os.getpid(), each)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BOTH)
        os.kill(os.getpid(), signal.SIGUSR1)

    assert (len(stops), heeded, unraisable) == (1, [], [])


def test_a_signal_after_the_one_that_stops_has_its_usual_effect(heeded: list[int]) -> None:
    stops: list[None] = []
    times = iter([7.0, 7.0 + SAME_SIGNAL_SECONDS])

    with stopping_on(BOTH, lambda: stops.append(None), lambda: next(times)):
        for each in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            os.kill(os.getpid(), each)

    assert (len(stops), heeded) == (1, [signal.SIGUSR2, signal.SIGUSR1])


def test_a_later_sigterm_ends_a_process_that_handles_none() -> None:
    program = """
import os, signal, itertools
from mq.client.signals import stopping_on
with stopping_on([signal.SIGTERM], lambda: None, itertools.count().__next__):
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
print("still here")
"""

    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"", b"")


def test_a_signal_that_the_program_around_python_handles_is_left_to_it(
    heeded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python does not know that handler and could not put it back."""
    known = signal.getsignal
    monkeypatch.setattr(
        signal, "getsignal", lambda number: None if number == signal.SIGUSR1 else known(number)
    )

    with stopping_on(BOTH, lambda: None):
        os.kill(os.getpid(), signal.SIGUSR1)

    assert heeded == [signal.SIGUSR1]


def test_the_workers_of_a_process_end_in_any_order(heeded: list[int]) -> None:
    stops: list[str] = []

    with ExitStack() as last:
        with ExitStack() as first:
            first.enter_context(stopping_on(BOTH, lambda: stops.append("first")))
            last.enter_context(stopping_on(BOTH, lambda: stops.append("last")))
        os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)

    assert (stops, heeded) == (["last"], [signal.SIGUSR2])


def test_a_signal_after_the_one_that_stops_several_has_its_usual_effect(heeded: list[int]) -> None:
    stops: list[str] = []
    times = iter([7.0, 7.0, 7.0 + SAME_SIGNAL_SECONDS, 7.0 + SAME_SIGNAL_SECONDS])

    with ExitStack() as workers:
        for name in ("one", "other"):
            stop = partial(stops.append, name)
            workers.enter_context(stopping_on(BOTH, stop, times.__next__))
        for each in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            os.kill(os.getpid(), each)

    assert (stops, heeded) == (["other", "one"], [signal.SIGUSR2, signal.SIGUSR1])


def test_an_ignored_sigint_stays_ignored() -> None:
    program = """
import os, signal
from mq.client.signals import stopping_on
signal.signal(signal.SIGINT, signal.SIG_IGN)
with stopping_on([signal.SIGTERM, signal.SIGINT], lambda: print("stopped")):
    for number in (signal.SIGINT, signal.SIGTERM):
        print(number.name)
        os.kill(os.getpid(), number)
print(signal.getsignal(signal.SIGINT).name)
"""

    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)

    assert done.stdout.decode().split() == ["SIGINT", "SIGTERM", "stopped", "SIG_IGN"], done.stderr
