"""One folder, mounted twice by `caching_mount`: two hosts in small, on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import wait_until

SOURCES = Path(__file__).with_name("caching_mount")

CACHED_SECONDS = 1.0


def missing() -> str | None:
    """Why there are no such mounts here; None if there can be."""
    for command in ("cc", "pkg-config", "fusermount3"):
        if shutil.which(command) is None:
            return f"needs {command} (Debian: gcc, pkg-config, fuse3)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "needs /dev/fuse"
    known = subprocess.run(["pkg-config", "--exists", "fuse3"], check=False)
    return None if known.returncode == 0 else "needs the headers of FUSE (Debian: libfuse3-dev)"


class CachingMounts:
    """`mounts` show `folder`, and each keeps names and attributes for a time. Of `changes_on_lost`
    changes of names one gets no reply, and is answered when it is sent again; 0 for none."""

    def __init__(
        self, parent: Path, changes_on_lost: int = 0, cached_seconds: float = CACHED_SECONDS
    ) -> None:
        self.folder = parent / "folder"
        self.folder.mkdir()
        self.mounts = (parent / "one", parent / "two")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._program = _compile(parent)
        self._words = cached_seconds, changes_on_lost
        for mount in self.mounts:
            mount.mkdir()
        self._mount()

    def _mount(self) -> None:
        for mount in self.mounts:
            words = (self._program, self.folder, mount, *self._words)
            self._processes.append(subprocess.Popen([*map(str, words)]))
        for mount, process in zip(self.mounts, self._processes, strict=True):
            _wait_for(mount, process)

    def hang(self) -> None:
        """Let the mounts answer nothing more. Each request to them waits."""
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def break_off(self) -> None:
        """Let the mounts lose what is behind them. Each request to them is an error."""
        for process in self._processes:
            process.kill()
            process.wait()

    def mount_again(self) -> None:
        self.close()
        self._processes.clear()
        self._mount()

    def close(self) -> None:
        self.break_off()
        for mount in self.mounts:
            subprocess.run(["fusermount3", "-u", "-z", str(mount)], check=False)


Mount = Callable[..., CachingMounts]
"""`mount(20)` mounts a folder twice; of twenty changes of names one gets no reply. `mount(0,
seconds)` says how long the mounts keep names."""


def _wait_for(mount: Path, process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: os.path.ismount(mount) or process.poll() is not None)
    assert process.poll() is None, f"not mounted: {mount}"


def _compile(folder: Path) -> Path:
    flags = ["pkg-config", "--cflags", "--libs", "fuse3"]
    found = subprocess.run(flags, check=True, capture_output=True, text=True).stdout
    program = folder / "caching"
    sources = map(str, sorted(SOURCES.glob("*.c")))
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-O2", *sources, *shlex.split(found)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program
