"""What a Spark application does to a root, told without Spark: it stages messages and commits them,
and others come in between."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark.claims import Group
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import STAGE_KEEP_SECONDS
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.faults import raising
from tests.support.lone_root import make_root
from tests.support.messages import SECOND_NS
from tests.support.stores import ORDERS

TWO_DAYS_NS = 2 * STAGE_KEEP_SECONDS * SECOND_NS
"""No stage is kept for so long."""

PATIENCE = 60.0


class Cut(Exception):
    """Where a driver died."""


class HookedFiles(Files):
    """Calls what a test wants before a link to a transaction, and before a rename to a queue.
    Nothing can be read in the folder of the queue `shut`."""

    def __init__(self) -> None:
        super().__init__()
        self.shut = ""
        self.before_link: Callable[[], None] = lambda: None
        self.before_delivery: Callable[[], None] = lambda: None

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        if name == self.shut:
            raising(errno.EACCES)()
        return super().open_folder(folder_fd, name)

    def attribute(self, fd: int | str, name: str) -> bytes | None:
        if self.shut and str(fd).endswith(f"/queues/{self.shut}"):
            raising(errno.EACCES)()
        return super().attribute(fd, name)

    def link(self, fd: int, folder_fd: int, name: str) -> None:
        if name.startswith("txn/"):
            self.before_link()
        super().link(fd, folder_fd, name)

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        if source.startswith("stage/") and not target.startswith(("stage/", "spark:")):
            self.before_delivery()
        super().rename(source_fd, source, target_fd, target)


def visit_new_root(root: Path, files: Files) -> Spool:
    """Return a new root with the queue `orders`, as a driver has it open, for the caller to
    close."""
    make_root(root, ORDERS)
    return visit_root(root, files, Actor.SPARK)


def start_group(spool: Spool, driver: str = "driver") -> Group:
    """Let a driver of the group `lake` fence off the one before. Returns its group."""
    group = Group(spool, "lake", driver)
    group.make()
    group.fence()
    return group


def stage(spool: Spool, name: str, *bodies: bytes, job: str = "app", batch: int = 1) -> str:
    """Stage one attempt, sealed. Returns its name."""
    attempt = Attempt(Job(spool, job), batch, name)
    for body in bodies:
        attempt.add([StagedMessage(ORDERS, body)])
    attempt.seal()
    return name


def bodies(root: Path, folder: str = "queues/orders") -> list[bytes]:
    """Return the bodies of the messages in a folder, in the order of their names."""
    found = (root / folder).iterdir() if (root / folder).exists() else ()
    return [path.read_bytes() for path in sorted(found)]


def sweep(root: Path) -> list[str]:
    """Sweep like a server on the root. Returns what could not be placed."""
    reported: list[str] = []
    server = visit_root(root, Files(), Actor.SERVER)
    Sweeper(server, lambda name, _: reported.append(name)).sweep()
    server.close()
    return reported


def dies() -> None:
    raise Cut


def make_again(queue: Path, earlier: Path) -> None:
    """Delete the folder of a queue and make it until its times say that it is later than `earlier`:
    the clock of the kernel goes in ticks."""
    deadline = time.monotonic() + PATIENCE
    while True:
        queue.rmdir()
        queue.mkdir()
        if queue.stat().st_mtime_ns > earlier.stat().st_ctime_ns:
            return
        assert time.monotonic() < deadline
