"""The clients of a run: a process of its own, whose history lies outside of the file system on
which things go wrong.

    python -m tests.soak.clients HISTORY PORT,GATEWAY_PORT,OTHER_PORT ROOT SEED WORKERS

Runs until SIGTERM. A client that loses its connection opens another one, however long it takes.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys

from tests.soak.bulk import BulkWorker, Depth, DraftsWorker
from tests.soak.commands import CommandWorker
from tests.soak.copies import CopiesWorker
from tests.soak.dying import DyingWorker
from tests.soak.handing import HandingWorker, StallWorker
from tests.soak.letters import LettersWorker
from tests.soak.singles import SinglesWorker
from tests.soak.worker import SoakSite, SoakWorker

_BULK_WORKERS = 4
_COPIES_WORKERS = 6
_DYING_WORKERS = 3
_HANDING_WORKERS = 8
_LETTERS_WORKERS = 3
_STALL_WORKERS = 4


def workers_at(site: SoakSite, seed: str, count: int) -> list[SoakWorker]:
    """`count` clients that do one thing at a time, and some of each other kind."""

    def source(name: str) -> random.Random:
        return random.Random(f"{seed}/{name}")

    depth = Depth()
    return [
        *(SinglesWorker(site, source(f"{number}")) for number in range(count)),
        *(BulkWorker(site, source(f"bulk/{number}"), depth) for number in range(_BULK_WORKERS)),
        *(CopiesWorker(site, source(f"copies/{number}")) for number in range(_COPIES_WORKERS)),
        *(DyingWorker(site, source(f"dying/{number}")) for number in range(_DYING_WORKERS)),
        *(HandingWorker(site, source(f"handing/{number}")) for number in range(_HANDING_WORKERS)),
        *(LettersWorker(site, source(f"letters/{number}")) for number in range(_LETTERS_WORKERS)),
        *(StallWorker(site, source(f"stall/{number}")) for number in range(_STALL_WORKERS)),
        DraftsWorker(site, source("drafts")),
        CommandWorker(site, source("commands")),
    ]


async def load(workers: list[SoakWorker]) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await asyncio.gather(*(worker.run(stopping) for worker in workers))


def main(history: str, ports: str, root: str, seed: str, count: str) -> None:
    history_fd = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    port, gateway_port, other_port = map(int, ports.split(","))
    site = SoakSite(port, gateway_port, other_port, root, history_fd)
    asyncio.run(load(workers_at(site, seed, int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
