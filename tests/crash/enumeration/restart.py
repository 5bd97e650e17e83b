"""A state laid out as real files, and the real server, mover and reaper started on it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from structlog.testing import capture_logs

from mq.commit.memory import MemoryCommitter
from mq.config import ReaperConfig
from mq.disk.files import Files
from mq.errors import MQError
from mq.lifecycle import FIXED_FOLDERS
from mq.names import QueueName, is_queue_name
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal
from mq.spool.queue.queues import DELETING_SUFFIX
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq.store.store import Store
from mq_reaper.reaper import Reaper
from tests.crash.enumeration.clock import LATER_NS, RESTART_NS, StoppedClock
from tests.crash.enumeration.disk import RecordedDisk
from tests.crash.enumeration.promises import Got, Outcome
from tests.crash.enumeration.properties import body_with_all
from tests.crash.enumeration.recorder import Abilities, RecordedFiles
from tests.crash.enumeration.server import InlineExecutor, OpenedServer, run_on
from tests.crash.enumeration.states import DiskState, last_state_of
from tests.support.redelivery import move_due

QUEUES = tuple(map(QueueName, ("a", "a.b", "b")))
"""The queues of all runs; after a restart those that are missing are made again."""

LONG_SEAL_BYTES = 48

PROBE_SECONDS = 30 * 86_400.0
"""How long what a restart's receivers take stays with them: longer than anything else."""


class Restarted(NamedTuple):
    """`disk` has what the restart itself did; `outcome` is None if it could not be started, for
    the reason in `refusal`."""

    disk: RecordedDisk
    outcome: Outcome | None
    refusal: str = ""


def lay_out(state: DiskState, root: Path) -> RecordedDisk:
    """The state as files and folders, durable."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700)
    for folder in state.folders:
        os.mkdir(root / folder, 0o700)
    for file in state.files:
        path = str(root / file.paths[0])
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(fd, file.data)
        for attribute, value in file.attributes:
            os.setxattr(fd, attribute, value)
        if file.mtime_ns is not None:
            os.utime(fd, ns=(file.mtime_ns, file.mtime_ns))
        os.close(fd)
        for other in file.paths[1:]:
            os.link(path, root / other)
    return RecordedDisk(root)


def reap(root: Path, files: Files) -> None:
    """One pass of a reaper."""
    with closing(Reaper(ReaperConfig(root / "remove"), files)) as reaper:
        reaper.reap()


class Restarts:
    """Starts systems, one after the other, in one folder. Equal ends are drained once."""

    def __init__(self, root: Path, abilities: Abilities, max_receives: int = 0) -> None:
        self._root = root
        # Its own probes would have a hidden name for an instant, in each state another one.
        self._abilities = abilities._replace(unnamed_files=True)
        self._max_receives = max_receives
        self._drained: dict[DiskState, Outcome] = {}
        self._runner = asyncio.Runner()
        self.clock = StoppedClock()

    def close(self) -> None:
        self._runner.close()

    def restart(self, state: DiskState) -> Restarted:
        """What a cut within the restart leaves is a state of the disk that is returned."""
        disk = lay_out(state, self._root)
        self.clock.now_ns = RESTART_NS
        with capture_logs():
            try:
                files = RecordedFiles(disk, self._abilities)
                if _has_tree(state) and len(state.files) % 2:
                    # In any order: of every second state they are there before the server.
                    self._move(files)
                    reap(self._root, files)
                with closing(self._start(files)) as opened:
                    self._move(files)
                    reap(self._root, files)
                    end, done = last_state_of(disk), list(disk.events)
                    if end not in self._drained:
                        self._drained[end] = run_on(self._runner, self._drain(opened, files, end))
            except (OSError, MQError) as error:
                return Restarted(disk, None, f"{type(error).__name__}: {error}")
        disk.events = done
        return Restarted(disk, self._drained[end])

    def _start(self, files: RecordedFiles) -> OpenedServer:
        return OpenedServer(self._root, files, self.clock, max_receives=self._max_receives)

    def _move(self, files: RecordedFiles) -> None:
        move_due(self._root, files, self._max_receives)

    async def _drain(self, opened: OpenedServer, files: RecordedFiles, end: DiskState) -> Outcome:
        workers = InlineExecutor()
        committer = MemoryCommitter(opened.work.begin_round, opened.work.end_calls, workers)
        store = Store(opened.work, committer, workers)
        queues = frozenset(os.listdir(self._root / "queues"))
        for queue in QUEUES:
            assert await store.create_queue(queue) is (queue not in queues), queue
        now = [got async for got in self._receive_all(store)]
        self.clock.now_ns = LATER_NS
        self._move(files)
        later = [got async for got in self._receive_all(store)]
        return Outcome(
            frozenset(queue for queue in queues if is_queue_name(queue)),
            frozenset(_settings_in(end)),
            tuple(now),
            tuple(later),
            tuple(_hidden_in(end)),
            frozenset(file.data for file in end.files),
            tuple(_left_over_in(end)),
        )

    async def _receive_all(self, store: Store) -> AsyncIterator[Got]:
        """One at a time: several in one answer are sorted once more."""
        for queue in filter(is_queue_name, sorted(os.listdir(self._root / "queues"))):
            while set(os.listdir(self._root / "queues" / queue)) - {SETTINGS_FILE}:
                received = await store.receive(QueueName(queue), PROBE_SECONDS)
                if received is None:
                    break
                body = received.body
                if body is None:
                    body = os.pread(received.fd, received.length, 0)
                received.close(store._work.files)
                body = body_with_all(body, received.properties, received.content_type)
                yield Got(queue, received.message_id, body)


def _has_tree(state: DiskState) -> bool:
    return {*FIXED_FOLDERS} <= {*state.folders}


def _settings_in(end: DiskState) -> Iterator[tuple[str, str]]:
    """Each queue that has settings, and their text."""
    for file in end.files:
        for path in file.paths:
            if path.startswith("queues/") and path.endswith(f"/{SETTINGS_FILE}"):
                yield path.split("/")[1], file.data.decode()


def _hidden_in(end: DiskState) -> Iterator[tuple[str, int, int]]:
    """Id, lease and due time of each message in `delay`."""
    for file in end.files:
        for path in file.paths:
            if path.startswith("delay/"):
                seal = Seal.unpack(dict(file.attributes).get(SEAL_ATTRIBUTE))
                due = file.mtime_ns or 0
                yield path.rpartition(":")[2], due if seal is None else seal.lease, due


def _left_over_in(end: DiskState) -> Iterator[str]:
    """What a restart must not leave: files in `new`, deletions that are not finished, and a root
    whose format is older than its messages. A message stays in `new` if there is no queue for it,
    or another message of its name there."""
    formats = [file.data for file in end.files if "format" in file.paths]
    seals = (dict(file.attributes).get(SEAL_ATTRIBUTE, b"") for file in end.files)
    if any(len(seal) == LONG_SEAL_BYTES for seal in seals) and formats != [b"mq 2\n"]:
        yield f"a message that an older version does not know, in a root of {formats}"
    names = {*end.folders, *(path for file in end.files for path in file.paths)}
    for name in sorted(names):
        queue, _, message_id = name.removeprefix("new/").partition(":")
        if (
            name.endswith(DELETING_SUFFIX)
            or name.startswith("new/.")
            or (
                name.startswith("new/")
                and f"queues/{queue}" in names
                and f"queues/{queue}/{message_id}" not in names
            )
        ):
            yield name
