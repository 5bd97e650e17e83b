"""The clock of a run and the state of its disk, for all processes of the run: `preload.c`, compiled
on the spot and loaded in front of libc, reads what `Control` writes.

A step of the clock is one of the whole machine, the times of files included. Without a file system
of its own the root's files keep the true time, like those of a file server whose clients' clocks
are wrong.
"""

from __future__ import annotations

import mmap
import os
import shlex
import struct
import subprocess
import sysconfig
import time
from pathlib import Path

from tests.support.mqctl import without_ours

SOURCE = Path(__file__).with_name("preload.c")

_HEAD = struct.Struct("=qqqq")
_STEP = struct.Struct("=qq")
_MAX_STEPS = 4096
_NO_DEVICE = -1


class Control:
    """`root` is the folder whose file system can fail, and whose files follow the clock if it is
    mounted for the run alone."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._path = folder / "control"
        self._library = folder / "preload.so"
        self._compile()
        self._path.write_bytes(bytes(_HEAD.size + _MAX_STEPS * _STEP.size))
        with self._path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._device = root.stat().st_dev if os.path.ismount(root) else _NO_DEVICE
        self._steps = 0
        self._set_head(0, 0)
        self.step(0)

    def environment(self) -> dict[str, str]:
        """What a process of the run has in its environment."""
        ours = {"LD_PRELOAD": str(self._library), "SOAK_CONTROL": str(self._path)}
        return without_ours() | ours

    @property
    def can_fail(self) -> bool:
        """Whether the root has a file system of its own."""
        return self._device != _NO_DEVICE

    def step(self, ahead_seconds: int) -> None:
        """Set the clock so far ahead of the true one, or behind it."""
        assert self._steps < _MAX_STEPS
        since_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) if self._steps else 0
        offset = _HEAD.size + self._steps * _STEP.size
        self._memory[offset : offset + _STEP.size] = _STEP.pack(since_ns, ahead_seconds)
        self._steps += 1
        self._set_head(0, 0)

    def fail(self, *, syncs: int = 0, writes: int = 0) -> None:
        """Let every sync, or write, of a file there fail with that errno; 0 for none."""
        self._set_head(syncs, writes)

    def _set_head(self, syncs: int, writes: int) -> None:
        self._memory[: _HEAD.size] = _HEAD.pack(self._device, syncs, writes, max(self._steps, 1))

    def _compile(self) -> None:
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        subprocess.run(
            [*compiler, "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", str(SOURCE),
             "-o", str(self._library)], check=True,
        )  # fmt: skip
