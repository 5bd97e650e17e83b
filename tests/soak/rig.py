"""The processes of one run, on a file system of its own, and what goes wrong with them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.soak.history import SECOND_NS, Event
from tests.soak.process import FAULTY, Control

HOUR_SECONDS = 3600
_MOVER, _REAPER, _SERVER = "mq-mover", "mq-reaper", "mq"
_START_SECONDS = 30


class Sample(NamedTuple):
    """What a server has open, and its resident memory."""

    descriptors: int
    resident_kib: int


class SoakRig:
    """A server, a mover and a reaper on `root`. Everything that happens is drawn from `source`."""

    def __init__(self, root: Path, folder: Path, source: random.Random) -> None:
        self.root = root
        self.history = folder / "history"
        self.port = _free_port()
        self.struck: Counter[str] = Counter()
        self._folder = folder
        self._random = source
        self._control_path = folder / "control"
        self._control = Control(self._control_path)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._filler = root.parent / "filler"

    # Processes

    def start(self) -> None:
        for command in (_SERVER, _MOVER, _REAPER):
            self._start(command)

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        self._filler.unlink(missing_ok=True)

    @property
    def server_pid(self) -> int:
        return self._running[_SERVER].pid

    def sample(self) -> Sample:
        process = Path(f"/proc/{self.server_pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return Sample(len(list((process / "fd").iterdir())), int(status["VmRSS"].split()[0]))

    def _start(self, command: str) -> None:
        root = self.root
        flags = {
            _SERVER: (f"--root={root}", f"--port={self.port}", "--admin="),
            _MOVER: (f"--source={root}/delay", f"--destination={root}/queues"),
            _REAPER: (f"--source={root}/remove", "--keep=60"),
        }[command]
        # Half of the servers have syncs that can fail; the others run as they are installed.
        kind = [FAULTY] if command == _SERVER and self._random.randrange(2) else []
        with (self._folder / f"{command}.log").open("ab") as log:
            self._running[command] = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.process", str(self._control_path), *kind,
                 command, *flags],
                stdout=log, stderr=log, env=_environment(),
            )  # fmt: skip
        if command == _SERVER:
            self._wait_for_the_server()

    def _wait_for_the_server(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._running[_SERVER].poll() is not None:
                    raise RuntimeError(f"no server: see {self._folder}/{_SERVER}.log") from None
                time.sleep(0.01)

    # What goes wrong

    def faults(self, *, may_kill_server: bool) -> dict[Callable[[], None], int]:
        """Each with its weight."""
        found: dict[Callable[[], None], int] = {
            self.stop_server: 2, self.kill_mover: 1, self.stop_mover: 1, self.kill_reaper: 1,
            self.step_the_clock: 1, self.fill_the_disk: 1, self.fail_syncs: 2,
        }  # fmt: skip
        if may_kill_server:
            found |= {self.kill_server: 4, self.restart_server: 1}
        return found

    def strike(self, *, may_kill_server: bool) -> None:
        faults = self.faults(may_kill_server=may_kill_server)
        [fault] = self._random.choices(list(faults), list(faults.values()))
        self.struck[getattr(fault, "__name__", "")] += 1
        fault()

    def kill_server(self) -> None:
        self._restart(_SERVER, signal.SIGKILL)

    def restart_server(self) -> None:
        self._restart(_SERVER, signal.SIGTERM)

    def kill_mover(self) -> None:
        self._restart(_MOVER, signal.SIGKILL)

    def kill_reaper(self) -> None:
        self._restart(_REAPER, signal.SIGKILL)

    def stop_server(self) -> None:
        self._pause(_SERVER, self._random.uniform(0.1, 2.0))

    def stop_mover(self) -> None:
        self._pause(_MOVER, self._random.uniform(0.1, 5.0))

    def step_the_clock(self) -> None:
        """An hour ahead, or back."""
        self.set_clock(HOUR_SECONDS - self._control.ahead_seconds)

    def set_clock(self, ahead_seconds: int) -> None:
        asked = time.monotonic_ns()
        self._control.set(ahead_seconds=ahead_seconds)
        event = Event("clock", asked, time.monotonic_ns(), seconds=float(ahead_seconds))
        with self.history.open("ab") as file:
            file.write(event.to_line())

    def fill_the_disk(self) -> None:
        """To the last block, where the root has a file system of its own."""
        if not os.path.ismount(self.root.parent):
            return
        free = os.statvfs(self.root.parent)
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, max(1, (free.f_bavail - 8) * free.f_bsize))
        time.sleep(self._random.uniform(0.2, 2.0))
        self._filler.unlink()

    def fail_syncs(self) -> None:
        self._control.set(do_syncs_fail=True)
        time.sleep(self._random.uniform(0.05, 1.0))
        self._control.set(do_syncs_fail=False)

    def _restart(self, command: str, number: signal.Signals) -> None:
        process = self._running[command]
        process.send_signal(number)
        process.wait()
        self._start(command)

    def _pause(self, command: str, seconds: float) -> None:
        process = self._running[command]
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)


class SoakClients:
    """The process of the clients."""

    def __init__(self, rig: SoakRig, seed: str, count: int) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.clients", str(rig.history), str(rig.port), seed,
             str(count)],
            env=_environment(),
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


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MQ_")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def seconds_since(then_ns: int) -> float:
    return (time.monotonic_ns() - then_ns) / SECOND_NS
