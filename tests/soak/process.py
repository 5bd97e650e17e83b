"""One of our processes, on a clock that can be set and with syncs that can be made to fail.

    python -m tests.soak.process CONTROL mq --root=...

CONTROL is a file that `Control` writes. The clock is what Python asks for the time of day; what the
kernel writes into files stays true, as it does for a host whose clock was set ahead.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import sys
import time
from pathlib import Path

_SETTINGS = struct.Struct("=qq")
_SECOND_NS = 1_000_000_000

FAULTY = "faulty"
"""In front of the command: the server's syncs can fail."""


class Control:
    """How many seconds the clock is ahead, and whether syncs fail, for all processes of a run."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SETTINGS.size))
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._memory = mmap.mmap(fd, _SETTINGS.size)
        os.close(fd)

    @property
    def ahead_seconds(self) -> int:
        return int(_SETTINGS.unpack(self._memory[:])[0])

    @property
    def do_syncs_fail(self) -> bool:
        return bool(_SETTINGS.unpack(self._memory[:])[1])

    def set(self, *, ahead_seconds: int | None = None, do_syncs_fail: bool | None = None) -> None:
        ahead = self.ahead_seconds if ahead_seconds is None else ahead_seconds
        fail = self.do_syncs_fail if do_syncs_fail is None else do_syncs_fail
        self._memory[:] = _SETTINGS.pack(ahead, fail)


def set_clock(control: Control) -> None:
    time_ns = time.time_ns
    time.time_ns = lambda: time_ns() + control.ahead_seconds * _SECOND_NS
    time.time = lambda: time.time_ns() / _SECOND_NS


def make_syncs_fail(control: Control) -> None:
    from mq.spool.files import Files  # noqa: PLC0415 - the clock is set before anything is loaded
    from mq.store import maintenance  # noqa: PLC0415

    class FaultyFiles(Files):
        def sync(self, fd: int) -> None:
            self._fail()
            super().sync(fd)

        def sync_file_system(self, fd: int) -> None:
            self._fail()
            super().sync_file_system(fd)

        @staticmethod
        def _fail() -> None:
            if control.do_syncs_fail:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    vars(maintenance)["Files"] = FaultyFiles


def main() -> None:
    control = Control(Path(sys.argv.pop(1)))
    set_clock(control)
    if sys.argv[1] == FAULTY:
        sys.argv.pop(1)
        make_syncs_fail(control)
    command = sys.argv.pop(1)
    if command == "mq":
        from mq.daemon.cli import main as run  # noqa: PLC0415
    elif command == "mq-mover":
        from mq_mover.cli import main as run  # noqa: PLC0415
    else:
        from mq_reaper.cli import main as run  # noqa: PLC0415
    run()


if __name__ == "__main__":
    main()
