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
from tests.crash.enumeration.restart import lay_out, move
from tests.crash.enumeration.server import InlineExecutor, OpenedServer
from tests.crash.enumeration.states import DiskState
from tests.crash.fifo.clients import body_of, look_at_hidden
from tests.crash.fifo.ledger import FifoPromise, FifoPromises
from tests.support.fifo import DEAD_LINE, LINE, FifoLine

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
            try:
                found = [each async for each in self._send_again(line, promises)]
                found += [each async for each in self._receive_now(line, promises)]
                self.clock.now_ns = LATER_NS
                move(self._root, files)
                await look_at_hidden(line)
                got = await line.drain()
                line.queue = DEAD_LINE
                return found + list(faults_in(promises, got, await line.drain()))
            finally:
                line.service.close()

    async def _send_again(self, line: FifoLine, promises: FifoPromises) -> AsyncIterator[str]:
        """Yield what was answered and counts as new; what was not answered is sent by this."""
        for group, messages in promises.groups:
            for each in messages:
                told = await line.send(each.body, group)
                if each.message_id is not None and told.message_id != each.message_id:
                    yield f"{each.body} was sent twice: {each.message_id}, {told.message_id}"

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


def faults_in(promises: FifoPromises, line: list[str], dead: list[str]) -> Iterator[str]:
    """Yield what is lost, back, twice or out of order."""
    for group, messages in promises.groups:
        order = [each.body for each in messages]
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
            if not times and not known[body].may_be_gone:
                yield f"{body} is lost"
            if times and known[body].is_gone:
                yield f"{body} came back"
