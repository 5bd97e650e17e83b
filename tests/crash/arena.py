"""Two processes race for one message.

They are two threads, each with the root opened for itself as a process has it. Before each of its
file calls a side may stop, by lot, until the other one stops too or has ended; then both go on.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from mq.commit.blocking import BlockingCommitter
from mq.commit.operation import Operation
from mq.config import ServerConfig
from mq.errors import LeaseMismatch, MessageNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import file_name, queue_path
from mq.spool.message.held import Held, hold
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.queue.listing import list_queue
from mq.spool.redelivery import redeliver
from mq.spool.root import open_root
from mq.store.receiving.receive import receive
from mq.store.receiving.received_message import Received
from mq.store.removing.remove import remove
from mq.store.removing.remove_under_lease import remove_leased
from mq.store.shared_state import Workspace
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import new_id, seal_of, write_message
from tests.support.stores import ORDERS

MEETING_SECONDS = 10
LEASE = 7
MEETING_PROBABILITY = 0.5
HOUR_NS = 3600 * 1_000_000_000

T = TypeVar("T")


class Races(NamedTuple):
    """On which kind of file system, with RENAME_NOREPLACE or without, and how many."""

    files: type[WatchedFiles]
    times: int

    def __str__(self) -> str:
        return f"{self.files.__name__}-{self.times}"


LONG = [Races(WatchedFiles, 20_000), Races(OldFiles, 5_000)]
SHORT = [races._replace(times=races.times // 5) for races in LONG]
RACES = [*SHORT, *(pytest.param(races, marks=pytest.mark.crash_long) for races in LONG)]


class Side:
    """One process at work on the root. Syncs are left out: they come after every race."""

    def __init__(self, root: Path, files: WatchedFiles, closer: ExitStack) -> None:
        self.files = files
        self.spool = closer.enter_context(closing(open_root(root, 0o700, files)[0]))
        self.work = Workspace(self.spool, ServerConfig(root=root), lambda: None)
        closer.enter_context(closing(self.work.ready))
        self._committer = BlockingCommitter(
            begin_round=self.work.begin_round, end_calls=self.work.end_calls, sleep=lambda _: None
        )
        self.first_call_ns = 0
        self._meeting = threading.Barrier(2)
        files.before |= dict.fromkeys(("open_message", "lock", "rename"), self._before_call)

    def race(self, meeting: threading.Barrier, work: Callable[[], T]) -> T:
        self.first_call_ns, self._meeting = 0, meeting
        try:
            return work()
        finally:
            meeting.abort()

    def _before_call(self, *_: object) -> None:
        if random.random() < MEETING_PROBABILITY:
            with suppress(threading.BrokenBarrierError):
                self._meeting.wait(MEETING_SECONDS)
        self.first_call_ns = self.first_call_ns or time.perf_counter_ns()

    def run(self, operation: Operation[T]) -> T:
        return self._committer.run(operation)

    def load_index(self) -> None:
        ready = self.work.ready.begin_listing(ORDERS)
        ready.end_listing(list_queue(self.spool, ORDERS, ready))


class Redelivered(NamedTuple):
    """When the message was moved, if it was, and whether it was received again after that."""

    began_ns: int = 0
    ended_ns: int = 0
    received: Received | None = None


class Arena:
    """One message, leased again before each race, and the two sides."""

    def __init__(self, root: Path, make_files: type[WatchedFiles], closer: ExitStack) -> None:
        self.remover = Side(root, make_files(), closer)
        self.other = Side(root, make_files(), closer)
        (root / "queues" / ORDERS).mkdir()
        self.id = new_id()
        self.leased = root / "delay" / file_name(ORDERS, self.id)
        self.ready = root / "queues" / queue_path(ORDERS, self.id)
        self.removed = root / "remove" / file_name(ORDERS, self.id)
        write_message(self.leased, b"body")
        self.lease_again()
        self.other.load_index()
        self._thread = closer.enter_context(ThreadPoolExecutor(1))

    def lease_again(self) -> None:
        for path in (self.ready, self.removed):
            if path.exists():
                path.rename(self.leased)
        os.setxattr(self.leased, SEAL_ATTRIBUTE, seal_of(b"body", lease=LEASE).pack())

    def places(self) -> list[Path]:
        return [path for path in (self.leased, self.ready, self.removed) if path.exists()]

    def race(
        self, removal: Callable[[], str], redelivery: Callable[[], Redelivered]
    ) -> tuple[str, Redelivered, bool]:
        """What both sides came to, and whether the redelivery moved the message after the first
        file call of the removal and before its end."""
        meeting = threading.Barrier(2)
        racing = self._thread.submit(self.other.race, meeting, redelivery)
        status, ended_ns = self.remover.race(meeting, lambda: (removal(), time.perf_counter_ns()))
        redelivered = racing.result()
        began_ns = self.remover.first_call_ns
        is_within = began_ns < redelivered.began_ns and redelivered.ended_ns < ended_ns
        return status, redelivered, is_within

    # The sides

    def remove(self) -> str:
        """Returns the answer's status."""
        return self._remove(remove(self.remover.work, ORDERS, self.id))

    def remove_under(self, lease: int) -> str:
        while True:
            leases = frozenset({lease})
            status = self._remove(remove_leased(self.remover.work, ORDERS, self.id, leases))
            if status != "busy":
                return status

    def _remove(self, operation: Operation[None]) -> str:
        try:
            self.remover.run(operation)
            return "202"
        except StoreUnavailable:
            return "busy"
        except MessageNotFound:
            return "404"
        except LeaseMismatch:
            return "412"

    def redeliver(self) -> Redelivered:
        """Redeliver the message as the mover does."""
        spool = self.other.spool
        delay = spool.opened(Folder.DELAY)
        held = hold(spool.files, delay.fd, self.leased.name)
        if not isinstance(held, Held):
            return Redelivered()
        with held:
            began_ns = time.perf_counter_ns()
            is_moved = redeliver(spool.moves, held, delay, spool.queues) is not None
            ended_ns = time.perf_counter_ns()
        return Redelivered(began_ns, ended_ns) if is_moved else Redelivered()

    def receive(self) -> Received | None:
        work = self.other.work
        work.ready.add(ORDERS, self.id)
        return self.other.run(receive(work, ORDERS, HOUR_NS))

    def redeliver_and_receive(self) -> Redelivered:
        return self.redeliver()._replace(received=self.receive())

    def receive_redeliver_and_receive(self) -> Redelivered:
        """The message leaves each place just before the other side looks there, if the lots fall
        so."""
        self.receive()
        return self.redeliver_and_receive()
