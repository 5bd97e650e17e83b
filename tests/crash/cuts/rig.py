"""A server under load on a disk that is cut."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.crash.cuts.client import QUEUE, lease_of
from tests.crash.cuts.disks import Cut, CutDisk
from tests.crash.cuts.ledger import CutLedger
from tests.crash.load import LoadClient, client_of
from tests.support.processes import Server, wait_until

_LEAST_LINES, _MOST_LINES = 100, 600
"""The client's log grows by this many lines before the cut."""

_VISIBILITY_SECONDS = (0.3, 3.0)
"""Leases that end between two cuts, and leases that outlive some."""


class CutLoad:
    """The client, a process of its own; its log lies on another file system than the server's."""

    def __init__(self, log: Path) -> None:
        log.touch()
        self._log = log.open("rb")
        self._unfinished = b""
        command = [sys.executable, "-m", "tests.crash.cuts.client", str(log)]
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, server: Server) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{server.port}\n")
        self._popen.stdin.flush()

    def lines(self) -> list[bytes]:
        """What was logged since the last call, but for a line that is still being written."""
        *whole, self._unfinished = (self._unfinished + self._log.read()).split(b"\n")
        return whole

    def wait_for_lines(self, count: int) -> list[bytes]:
        lines = self.lines()

        def are_enough() -> bool:
            lines.extend(self.lines())
            return len(lines) >= count

        wait_until(are_enough, 100)
        return lines

    def wait_for_the_end(self) -> None:
        """Wait until every connection of the client is gone."""
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == "gone\n"

    def stop(self) -> None:
        self._popen.kill()
        self._popen.communicate()
        self._log.close()


class Rig:
    """A server on a disk that is cut, its client, and the ledger between the two."""

    def __init__(
        self, disk: CutDisk, load: CutLoad, folder: Path, *flags: str, module: str = "mq"
    ) -> None:
        self.disk = disk
        self.ledger = CutLedger()
        self._load = load
        self._root = disk.path / "root"
        self._log = folder / "mq.log"
        self._flags = flags
        self._module = module
        self.server: Server | None = None

    def start(self) -> Server:
        visibility = random.choice(_VISIBILITY_SECONDS)
        flags = ("--standalone", "--keep=0", f"--visibility={visibility}", "--min-free=0")
        self.server = Server(self._root, *flags, *self._flags, log=self._log, module=self._module)
        return self.server

    def cut(self, cut: Cut) -> None:
        """Load the server, cut its disk, kill it, and mount what is left."""
        assert self.server is not None
        self._load.start(self.server)
        lines = self._load.wait_for_lines(random.randrange(_LEAST_LINES, _MOST_LINES))
        if cut is CutDisk.copy:
            # What is answered from here on may be there or not.
            self.ledger.read(lines, certain=True)
            lines = []
        cut(self.disk)
        self.server.kill()
        self._load.wait_for_the_end()
        self.ledger.read([*lines, *self._load.lines()], certain=cut is not CutDisk.copy)
        self.disk.unmount()
        self.disk.mount()

    def violations(self) -> list[str]:
        return self.ledger.violations(self._root)

    async def drain(self) -> None:
        """Receive and remove whatever is ready, in every queue there is."""
        assert self.server is not None
        async with client_of(self.server) as client:
            await client.request("PUT", f"/{QUEUE}")
            for queue in os.listdir(self._root / "queues"):
                await self._drain_queue(client, queue)

    async def _drain_queue(self, client: LoadClient, queue: str) -> None:
        asked_ns = time.time_ns()
        while (answer := await client.receive(queue)).status == 200:
            self.ledger.note_lease(*lease_of(answer, asked_ns))
            self.ledger.asked_to_remove.add(answer.message_id)
            assert (await client.remove(answer.message_id, queue)).status == 202
            asked_ns = self.ledger.removed[answer.message_id] = time.time_ns()
        assert answer.status == 204

    def stop(self) -> None:
        assert self.server is not None
        self.server.kill()

    def close(self) -> None:
        """Whatever happened, nothing runs on and nothing stays mounted."""
        if self.server is not None and self.server.popen.poll() is None:
            self.server.kill()
        self._load.stop()
        self.disk.discard()
