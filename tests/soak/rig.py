"""The processes of one run, on a file system of its own, and what goes wrong with them."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.soak.commands import PRELOAD
from tests.soak.control import Control
from tests.soak.growth import Sample
from tests.soak.history import Event
from tests.soak.order import FULL

HOUR_SECONDS = 3600
KEEP_SECONDS = 20
SERVER, OTHER, GATEWAY, MOVER, REAPER = "mq", "other-mq", "mq-sqs", "mq-mover", "mq-reaper"
_MODULES = {
    SERVER: "mq", OTHER: "mq", GATEWAY: "mq_sqs", MOVER: "mq_mover", REAPER: "mq_reaper",
}  # fmt: skip
_READY = {
    SERVER: b"event=listening", OTHER: b"event=listening", GATEWAY: b"event=listening",
    MOVER: b"event=configuration", REAPER: b"event=configuration",
}  # fmt: skip
"""What the log of each says once it handles signals, and its start cannot fail any more."""
_START_SECONDS = 60
_PORTS = range(10_000, 32_000)
"""None that the kernel gives to a client: one of those would keep a server from starting again."""
_FELT_SECONDS = 2.0
"""For how long a fault is felt: a mover starts, or tries again after an error of the disk."""

_LOOKS = 10
_LOOK_SECONDS = 0.02


class SoakRig:
    """Two servers, a gateway for SQS, a mover and a reaper on `root`. Everything that happens is
    drawn from `source`."""

    def __init__(self, root: Path, folder: Path, source: random.Random) -> None:
        self.root = root
        self.history = folder / "history"
        self.port, self.gateway_port, self.other_port = _free_ports(3)
        self.struck: Counter[str] = Counter()
        self.odd_ends: list[str] = []
        """Of processes that ended in another way than they were told to."""
        self._folder = folder
        self._random = source
        self._control = Control(folder, root.parent)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._log_begins: dict[str, int] = {}
        """Where the log of each that runs begins in the file."""
        self._ahead_seconds = 0
        self._filler = root.parent / "filler"

    # Processes

    def start(self) -> None:
        for command in _MODULES:
            self._start(command)

    def stop(self) -> None:
        self._control.fail()
        for process in self._running.values():
            process.kill()
            process.wait()
        self._filler.unlink(missing_ok=True)

    def sample(self, command: str) -> Sample:
        process = Path(f"/proc/{self._running[command].pid}")
        lines = (process / "status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        open_at_least = min(self._descriptors(process) for _ in range(_LOOKS))
        messages = (
            0 if command == REAPER else self._count("delay" if command == MOVER else "queues")
        )
        return Sample(time.monotonic(), open_at_least, int(status["VmRSS"].split()[0]), messages)

    def _count(self, folder: str) -> int:
        return sum(len(names) for _, _, names in os.walk(self.root / folder))

    @staticmethod
    def _descriptors(process: Path) -> int:
        time.sleep(_LOOK_SECONDS)
        return len(list((process / "fd").iterdir()))

    def commands_environment(self) -> dict[str, str]:
        """For a process that is not on the clock of the run itself, but starts `mqctl`."""
        found = self._control.environment()
        return found | {PRELOAD: found.pop("LD_PRELOAD")}

    def _start(self, command: str) -> None:
        root = self.root
        flags = {
            SERVER: (f"--root={root}", f"--port={self.port}", "--admin="),
            OTHER: (f"--root={root}", f"--port={self.other_port}", "--admin="),
            GATEWAY: (f"--root={root}", f"--port={self.gateway_port}", "--admin="),
            MOVER: (f"--source={root}/delay", f"--destination={root}/queues"),
            REAPER: (f"--source={root}/remove", f"--keep={KEEP_SECONDS}"),
        }[command]
        with self._log_of(command).open("ab") as log:
            self._log_begins[command] = log.tell()
            self._running[command] = subprocess.Popen(
                [sys.executable, "-m", _MODULES[command], *flags],
                stdout=log, stderr=log, env=self._control.environment(),
            )  # fmt: skip
        if command in (SERVER, OTHER, GATEWAY):
            self._wait_for(command)

    def _wait_for(self, command: str) -> None:
        """A server has its port before it has opened its root, which a full disk may prevent."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready(command):
            if time.monotonic() > deadline or self._running[command].poll() is not None:
                raise RuntimeError(f"it does not start: {self._log_of(command)}")
            time.sleep(0.01)

    def _is_ready(self, command: str) -> bool:
        with self._log_of(command).open("rb") as log:
            log.seek(self._log_begins[command])
            return _READY[command] in log.read()

    def _log_of(self, command: str) -> Path:
        return self._folder / f"{command}.log"

    # What goes wrong

    def faults(self, *, may_kill: bool) -> dict[Callable[[], None], int]:
        """Each with its weight."""
        found: dict[Callable[[], None], int] = {self.pause: 3, self.step_the_clock: 2}
        if self._control.can_fail:
            found |= {self.fill_the_disk: 1, self.fail_syncs: 2, self.fail_writes: 1}
        if may_kill:
            found |= {self.kill: 8, self.restart: 3}
        return found

    def strike(self, *, may_kill: bool) -> None:
        faults = self.faults(may_kill=may_kill)
        [fault] = self._random.choices(list(faults), list(faults.values()))
        before, asked = self.struck.copy(), time.monotonic_ns()
        fault()
        [name] = self.struck - before
        self.note(Event("fault", asked, time.monotonic_ns(), queue=name, seconds=_FELT_SECONDS))
        self._look_for_odd_ends()

    def note(self, event: Event) -> None:
        with self.history.open("ab") as file:
            file.write(event.to_line())

    def _look_for_odd_ends(self) -> None:
        for command, process in self._running.items():
            code = process.poll()
            if code is not None:
                self.odd_ends.append(f"{command} ended by itself with {code}")
                self._start(command)

    def _draw_process(self) -> str:
        [command] = self._random.choices([SERVER, OTHER, GATEWAY, MOVER, REAPER], [4, 2, 2, 2, 1])
        return command

    def kill(self) -> None:
        command = self._draw_process()
        self.struck[f"kill -9 {command}"] += 1
        process = self._running[command]
        process.kill()
        process.wait()
        self._start(command)

    def restart(self) -> None:
        command = self._draw_process()
        self.struck[f"SIGTERM {command}"] += 1
        process = self._running[command]
        # Until it says so a mover or reaper that has just been started may not handle signals.
        expected = {0} if self._is_ready(command) else {0, -signal.SIGTERM}
        process.terminate()
        if process.wait(_START_SECONDS) not in expected:
            self.odd_ends.append(f"{command} was stopped and ended with {process.returncode}")
        self._start(command)

    def pause(self) -> None:
        command = self._draw_process()
        self.struck[f"SIGSTOP {command}"] += 1
        process = self._running[command]
        process.send_signal(signal.SIGSTOP)
        time.sleep(self._random.uniform(0.1, 2.0))
        process.send_signal(signal.SIGCONT)

    def step_the_clock(self) -> None:
        """Set the clock by an hour: to and fro, ahead of the true time or behind it."""
        ahead = self._ahead_seconds
        self.struck["clock set"] += 1
        self.set_clock(0 if ahead else self._random.choice([-HOUR_SECONDS, HOUR_SECONDS]))

    def set_clock(self, ahead_seconds: int) -> None:
        asked = time.monotonic_ns()
        self._control.step(ahead_seconds)
        self._ahead_seconds = ahead_seconds
        self.note(Event("clock", asked, time.monotonic_ns(), seconds=float(ahead_seconds)))

    def fill_the_disk(self) -> None:
        """Leave no block free for a while."""
        self.struck[FULL] += 1
        free = os.statvfs(self.root.parent)
        with self._filler.open("wb") as filler:
            try:
                os.posix_fallocate(filler.fileno(), 0, max(1, (free.f_bavail - 8) * free.f_bsize))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        time.sleep(self._random.uniform(0.2, 2.0))
        self._filler.unlink()

    def fail_syncs(self) -> None:
        self.struck["syncs fail"] += 1
        self._control.fail(syncs=errno.EIO)
        time.sleep(self._random.uniform(0.05, 1.0))
        self._control.fail()

    def fail_writes(self) -> None:
        self.struck["writes fail"] += 1
        self._control.fail(writes=self._random.choice([errno.EIO, errno.ENOSPC, errno.EDQUOT]))
        time.sleep(self._random.uniform(0.05, 1.0))
        self._control.fail()


class SoakClients:
    """The process of the clients."""

    def __init__(self, rig: SoakRig, seed: str, count: int) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.clients", str(rig.history),
             f"{rig.port},{rig.gateway_port},{rig.other_port}", str(rig.root), seed, str(count)],
            env=rig.commands_environment(),
        )  # fmt: skip

    def stop(self) -> None:
        """Each comes to the end of what it does."""
        self._popen.terminate()
        code = self._popen.wait(60)
        if code != 0:
            raise RuntimeError(f"the clients ended with {code}")

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    with ExitStack() as probes:
        while len(found) < count:
            probe = probes.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", random.choice(_PORTS)))
                found.append(int(probe.getsockname()[1]))
    return found
