"""The mover: messages of one folder that are due go to their places below another one.

When it starts, a scan finds what came while no mover ran. Then events report what comes, and a slow
timer scans again. Each move looks at the message again under its lock, so a lease that was
prolonged in between wins. A kill at any moment strands nothing.
"""

from __future__ import annotations

import heapq
import os
import time

import structlog

from mq.command.logs import Once, report_left
from mq.config import SECOND_NS, MoverConfig
from mq.disk.files import HIDDEN, Files
from mq.disk.listing import list_names
from mq.lifecycle import Actor, Folder
from mq.metrics.tally import MoverCounts, QueueTally, own_counts
from mq.names import QueueName, parse_file_name
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.held import Held, Lost, hold
from mq.spool.message.seal import due_ns, is_due
from mq.spool.moves import Moves, OpenFolder
from mq.spool.network_files import STALE_NS
from mq.spool.open_queues import OpenQueues
from mq.spool.queue.known_settings import KnownSettings
from mq.spool.queue.queues import has_queue
from mq.spool.redelivery import (
    DeadQueueBeingDeleted,
    comes_back,
    lives_on,
    redeliver,
    report_living,
)
from mq.spool.root import folder_of_root, open_without_root
from mq.spool.trouble import require_at
from mq.spool.watch import Change, Watch
from mq_mover.due_times import due_times
from mq_mover.folders import (
    refuse_move_of_others,
    refuse_no_move,
    refuse_other_root,
)
from mq_mover.resting import RestingQueues

log = structlog.get_logger(__name__)

_GATHER_SECONDS = 0.02
_BUSY_NS = 50_000_000
_LONGEST_WAIT_SECONDS = 3600.0
_SCAN_PAUSE_FACTOR = 200
NETWORK_SCAN_PAUSE_FACTOR = 20
"""If it took T to look at all files, the timer does not scan again within this many times T. Where
other machines work on the root too, only a scan sees what they do."""

_SOURCE, _DESTINATION = "source", "destination"
"""The two folders, among those that are watched."""

_DUE_DIGITS = 16
_ENTRY = "+"
_HINT = "-"
"""Each file has one entry, which is pushed again until the file is gone. A changed stamp adds a
hint, which only makes sure that the file is looked at in time."""


class Mover:
    """Moves from `config.source` to `config.destination`. Raises StartRefused."""

    def __init__(self, config: MoverConfig, files: Files) -> None:
        self._config = config
        self._files = files
        self._delay_ns = int(config.delay_seconds * SECOND_NS)
        self._retry_ns = max(int(config.retry_seconds * SECOND_NS), _BUSY_NS)
        self._rescan_ns = int(config.rescan_seconds * SECOND_NS)
        self._grace_ns = STALE_NS if files.is_of_network else 0
        self._source = open_without_root(files, config.source)
        self._destination = open_without_root(files, config.destination)
        self._queues = OpenQueues(files, self._destination)
        self._moves = Moves(files, Actor.MOVER)
        self._from = OpenFolder(folder_of_root(config.source) or Folder.DELAY, self._source)
        self._to = OpenFolder(
            folder_of_root(config.destination) or Folder.QUEUES, self._destination
        )
        self._settings = KnownSettings(files, self._queues, report_left)
        refuse_move_of_others(config, self._moves, self._from, self._to)
        refuse_no_move(config, self._from, self._to)
        refuse_other_root(config)
        self.counts = own_counts(MoverCounts)
        self._tally = QueueTally(self.counts)
        self._waiting: list[str] = []
        self._report = Once(report_left)
        self._report_living = Once(report_living)
        self._next_scan = 0.0
        self._resting = RestingQueues(config.retry_seconds)
        self._missing: set[str] = set()
        """The queues for which messages have stayed since the last scan, because they are away."""
        files.owners.add(os.fstat(self._source).st_uid)
        self._watch: Watch | None = None
        self._lacks_events = False
        """Whether the system had no events at the last scan, which is logged once."""

    def _start_watch(self) -> Watch | None:
        try:
            watch = Watch()
            watch.add(_SOURCE, str(self._config.source), attributes=True)
            watch.add(_DESTINATION, str(self._config.destination))
        except OSError as error:
            if not self._lacks_events:
                log.warning("no file system events; scans only", error=str(error))
            self._lacks_events = True
            return None
        self._lacks_events = False
        return watch

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._queues.close()
        self._files.close(self._source)
        self._files.close(self._destination)

    def run(self) -> None:
        """Move until the process ends, even after errors of the disk. Raises what `scan` raises."""
        while True:
            try:
                if time.monotonic() >= self._next_scan:
                    self.scan()
                self.move_due()
                self._wait()
            except OSError as error:
                log.error("moving failed; trying again", error=str(error))
                time.sleep(self._config.retry_seconds)
                self._next_scan = 0.0

    def scan(self) -> None:
        """Look at every file in the source, about 3 µs each, and move what becomes due meanwhile.
        Raises CommandFailed if a folder was moved away: its messages are not those of the root."""
        require_at(self._source, self._config.source)
        require_at(self._destination, self._config.destination)
        if self._watch is None:
            self._watch = self._start_watch()
        started, moving_seconds = time.monotonic(), 0.0
        # The folder of a queue that was deleted or purged takes room while it is open.
        self._queues.close()
        self._settings.keep(self._list(self._destination))
        self._waiting = []
        self._missing.clear()
        self._resting.forget_entries()
        for found in due_times(self._source, self._list(self._source), self._delay_ns):
            for name, due in found:
                self._push(due, _ENTRY, name)
            looked = time.monotonic()
            self.move_due()
            moving_seconds += time.monotonic() - looked
        now = time.monotonic()
        factor = NETWORK_SCAN_PAUSE_FACTOR if self._files.is_of_network else _SCAN_PAUSE_FACTOR
        pause = max(self._config.rescan_seconds, factor * (now - started - moving_seconds))
        self._next_scan = now + (pause if self._watch is not None else min(pause, 1.0))

    def move_due(self) -> None:
        """Move what is due by now, except of queues that rest."""
        for entry in self._resting.take_back():
            heapq.heappush(self._waiting, entry)
        now = _now()
        while self._waiting and self._waiting[0] < now:
            entry = heapq.heappop(self._waiting)
            kind, name = entry[_DUE_DIGITS], entry[_DUE_DIGITS + 1 :]
            if self._resting.put_aside(name, entry):
                continue
            again = self._try_move(name)
            if again is not None and (kind == _ENTRY or again <= time.time_ns() + self._retry_ns):
                self._push(again, kind, name)
                # If the clock was set back, it is not due any more, and would come up for ever.
                # What falls due meanwhile waits for the next call: otherwise thousands of messages
                # that another process holds would come up again and again, before any that has
                # arrived since.
                now = min(now, _now())
        if self._resting.wait_seconds() is None:
            self.counts.lag_ns = 0

    def _list(self, folder: int) -> list[str]:
        return [name for name in list_names(self._files, folder) if not name.startswith(HIDDEN)]

    def _wait(self) -> None:
        """Wait until the next message is due, an event comes, or it is time for a scan."""
        timeout = min(self._next_scan - time.monotonic(), _LONGEST_WAIT_SECONDS)
        if self._waiting:
            due_seconds = (int(self._waiting[0][:_DUE_DIGITS], 16) - time.time_ns()) / SECOND_NS
            timeout = min(timeout, due_seconds + 0.001)
        rest_seconds = self._resting.wait_seconds()
        timeout = max(timeout if rest_seconds is None else min(timeout, rest_seconds), 0.0)
        if self._watch is None:
            time.sleep(timeout)
            return
        noted: dict[str, str] = {}
        for event in self._watch.read(timeout, _GATHER_SECONDS):
            if event.change is Change.OVERFLOW:
                log.warning("file system events were lost; scanning again")
                self._next_scan = 0.0
                return
            if event.folder == _DESTINATION:
                if event.change is Change.CAME and event.name in self._missing:
                    self._next_scan = 0.0
            elif event.change is Change.CAME:
                noted[event.name] = _ENTRY
            elif event.change is Change.CHANGED:
                noted.setdefault(event.name, _HINT)
        for name, kind in noted.items():
            if not name.startswith(HIDDEN):
                self._note(name, kind)

    def _note(self, name: str, kind: str) -> None:
        """Remember when to look at a file again, unless it is gone."""
        try:
            status = os.stat(name, dir_fd=self._source, follow_symlinks=False)
        except FileNotFoundError:
            return
        self._push(due_ns(status, self._delay_ns), kind, name)

    def _push(self, due: int, kind: str, name: str) -> None:
        due = 0 if is_due(due, time.time_ns()) else due
        heapq.heappush(self._waiting, f"{due:0{_DUE_DIGITS}x}{kind}{name}")

    def _try_move(self, name: str) -> int | None:
        """Move a file if it is due. Returns when to try again, in ns since 1970, or None if there
        is nothing left to do for it."""
        now_ns = time.time_ns()
        try:
            held = hold(self._files, self._source, name)
            if isinstance(held, Held):
                with held:
                    due = due_ns(held.status, self._delay_ns) + self._grace_ns
                    again: int | None = due
                    if is_due(due, now_ns):
                        self.counts.lag_ns = max(0, now_ns - due)
                        again = self._move(held)
                if again is None:
                    self._resting.worked(name)
                return again
        except FileExistsError:
            self._report(name, "the destination has another file of that name")
        except BlockingIOError as error:
            # Another process makes a queue, and so must this; a deletion takes longer.
            is_deletion = isinstance(error, DeadQueueBeingDeleted)
            return now_ns + (self._retry_ns if is_deletion else _BUSY_NS)
        except OSError as error:
            self._report(name, f"{error.strerror}")
            if error.errno not in FAULTS_OF_ONE_MESSAGE:
                self._resting.failed(name)
                return now_ns + self._retry_ns
        else:
            if held is Lost.GONE:
                return None
            if held is Lost.BUSY:
                return now_ns + _BUSY_NS
            self._report(name, held.value)
        return now_ns + self._rescan_ns

    def _move(self, held: Held) -> int | None:
        """Move `QUEUE:ID` to QUEUE/ID, and a name without a colon to the same name. Any other name
        belongs to a queue that no request can reach, and would end up outside of any queue."""
        parsed = parse_file_name(held.name)
        if parsed is None and ":" in held.name:
            self._report(held.name, "not a name of the form QUEUE:ID")
            return time.time_ns() + self._rescan_ns
        if parsed is None:
            self._moves.rename(self._from, held.name, self._to, held.name)
            self.counts.moved += 1
            return None
        rule = self._settings.of(parsed[0]).dead_letter_rule(parsed[0], self._config.max_receives)
        queue = redeliver(self._moves, held, self._from, self._queues, rule)
        if queue is not None:
            counted = self._tally.of(parsed[0])
            counted.redelivered += queue == parsed[0] and comes_back(held.seal)
            counted.dead_lettered += queue != parsed[0]
            if (why := lives_on(held, rule, queue)) is not None:
                self._report_living(held.name, why)
            return None
        dead = rule.queues_after(held.receive_count)
        self._missing.update((parsed[0], *dead))
        self._report(held.name, self._why_left(parsed[0], dead))
        return time.time_ns() + self._rescan_ns

    def _why_left(self, queue: QueueName, dead: tuple[QueueName, ...]) -> str:
        place = self._config.destination
        if dead and has_queue(self._files, self._destination, queue):
            graves = " or ".join(f"{place}/{each}" for each in dead)
            return (
                f"it was received too often, and {graves} is not a folder, or another user's: "
                "move away what is there, or chown it"
            )
        return f"there is no folder for it in {place}"


def _now() -> str:
    return f"{time.time_ns():0{_DUE_DIGITS}x}"
