"""A gateway started on what a cut left of FIFO queues; its clients send again what they sent, and
receive everything. What does not hold is returned in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

from structlog.testing import capture_logs

from mq.commit.memory import MemoryCommitter
from mq.errors import MQError
from mq.names import MessageId
from mq.store.store import Store
from tests.crash.enumeration.clock import LATER_NS, SECOND_NS, START_NS, StoppedClock
from tests.crash.enumeration.disk import RecordedDisk
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.restart import lay_out
from tests.crash.enumeration.server import InlineExecutor, OpenedServer
from tests.crash.enumeration.states import DiskState
from tests.crash.fifo.clients import body_of, look_at_hidden
from tests.crash.fifo.ledger import FifoPromise, FifoPromises
from tests.support.fifo import DEAD_LINE, LINE, FifoLine
from tests.support.redelivery import move_due

RESTART_NS = START_NS + 60 * SECOND_NS
"""When a gateway is started again: within five minutes of all that was sent."""

PROBE_SECONDS = 1000.0


class FifoRestarts:
    """Starts gateways, one after the other, in one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runner = asyncio.Runner()
        self.clock = StoppedClock()

    def close(self) -> None:
        self._runner.close()

    def faults(self, state: DiskState, promises: FifoPromises) -> list[str]:
        """Return what was promised and does not hold."""
        disk = lay_out(state, self._root)
        self.clock.now_ns = RESTART_NS
        with capture_logs():
            try:
                return self._runner.run(self._look(disk, promises))
            except (OSError, MQError) as error:
                return [f"no restart: {type(error).__name__}: {error}"]

    async def _look(self, disk: RecordedDisk, promises: FifoPromises) -> list[str]:
        files = RecordedFiles(disk)
        with closing(OpenedServer(self._root, files, self.clock)) as opened:
            workers = InlineExecutor()
            work = opened.work
            committer = MemoryCommitter(work.begin_round, work.end_calls, workers)
            line = FifoLine(Store(work, committer, workers))
            line.service._is_looking = True
            again: set[str] = set()
            try:
                found = [each async for each in self._send_again(line, promises, again)]
                found += [each async for each in self._receive_now(line, promises)]
                self.clock.now_ns = LATER_NS
                move_due(self._root, files)
                await look_at_hidden(line)
                got = await line.drain()
                line.queue = DEAD_LINE
                return found + list(faults_in(promises, got, await line.drain(), again))
            finally:
                line.service.close()

    async def _send_again(
        self, line: FifoLine, promises: FifoPromises, again: set[str]
    ) -> AsyncIterator[str]:
        """Yield what was answered and counts as new, or the reverse; and what is left of a batch
        without what comes before it. What was not answered is sent by this, and what was forgotten,
        which is entered in `again`."""
        for group, messages in promises.groups:
            missing = ""
            for each in messages:
                told = await line.send(each.body, group)
                is_new = not told.is_duplicate
                if is_new:
                    again.add(each.body)
                if each.message_id is None:
                    if not is_new and missing:
                        yield f"{each.body} is there without {missing}"
                    missing = each.body if is_new and not each.may_be_forgotten else missing
                    continue
                if is_new is (told.message_id == each.message_id) or (
                    is_new and not each.may_be_forgotten
                ):
                    yield f"{each.body} was sent twice: {each.message_id}, {told.message_id}"
                elif each.is_forgotten and not is_new:
                    yield f"{each.body} was purged and cannot be sent again"

    async def _receive_now(self, line: FifoLine, promises: FifoPromises) -> AsyncIterator[str]:
        """Yield what is received in spite of a message in flight, and receipts that are over."""
        locked = {each.body[0]: each.body for each in in_flight(promises)}
        while taken := await line.receive(10, PROBE_SECONDS):
            for each in taken:
                body = body_of(each)
                if body[0] in locked:
                    yield f"{body} was received while {locked[body[0]]} is in flight"
        for promise in in_flight(promises):
            message_id = MessageId(str(promise.message_id))
            if not await line.service.change_visibility(LINE, message_id, promise.lease, 900):
                yield f"the receipt of {promise.body} does not work any more"


def in_flight(promises: FifoPromises) -> list[FifoPromise]:
    return [each for _, messages in promises.groups for each in messages if each.lease]


def faults_in(
    promises: FifoPromises, line: list[str], dead: list[str], again: set[str]
) -> Iterator[str]:
    """Yield what is lost, back, twice or out of order. `again` was sent once more, behind all
    others."""
    for group, messages in promises.groups:
        order = [each.body for each in messages]
        order.sort(key=again.__contains__)
        known = {each.body: each for each in messages}
        here = [body for body in line if body[0] == group]
        there = [body for body in dead if body[0] == group]
        for bodies in (here, there):
            if bodies != sorted(bodies, key=order.index):
                yield f"out of order: {bodies}, sent as {order}"
        for body in order:
            times = here.count(body) + there.count(body)
            if times > 1:
                yield f"{body} came {times} times"
            if not times and (body in again or not known[body].may_be_gone):
                yield f"{body} is lost"
            if times and known[body].is_gone and body not in again:
                yield f"{body} came back"
