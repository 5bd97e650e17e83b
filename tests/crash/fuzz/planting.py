"""Files of any kind with any name, in any folder of a root.

What is there already is left alone: a person who overwrites a message has lost it.
"""

from __future__ import annotations

import os
import random
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mq.spool.message.seal import Seal
from tests.support.users import NOBODY

FOLDERS = ("new", "queues", "delay", "remove", "corrupt", "spark", "spark/claims", "spark/stage",
           "spark/txn")  # fmt: skip
_TIB = 1 << 40
_ODD_TIMES = (-(1 << 31), -1, 0, 1, (1 << 31) - 1, 1 << 31, 4_102_444_800, (1 << 33) + 12345)
_LONGEST_NAME = 255
_ODD_LENGTHS = (0, 1, 6, 140_000, (1 << 31) - 1, 1 << 32, _TIB, 1 << 63, (1 << 64) - 1)


class Planter:
    """Plants in `root`, whose queues `queues` are in use. Everything is drawn from `source`. Links
    lead to the folder `treasure` beside the root, which must stay as it is."""

    def __init__(self, root: Path, queues: Sequence[str], source: random.Random) -> None:
        self._root = os.fsencode(root.resolve())
        self._treasure = os.fsencode(root.with_name("treasure"))
        self._queues = queues
        self._random = source
        self._immutable: list[bytes] = []
        self._mounted: list[bytes] = []
        self.spared: set[str] = set()
        """The messages that get no second name: a receiver of that name would have the message."""

    def clear(self) -> None:
        """Leave nothing that keeps a person from removing all of it."""
        for path in self._immutable:
            subprocess.run(["chattr", "-i", path], check=False, capture_output=True)
        for path in self._mounted:
            subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)

    def plant(self) -> bytes | None:
        """Returns the path of what is there now, or None where that cannot be: a folder that is
        gone, a name that is taken, a kind that this file system lacks."""
        folder = os.path.join(self._root, self._folder())
        path = os.path.join(folder, self._name())
        make = self._random.choices(
            [self._file, self._fifo, self._socket, self._link, self._folder_of_files, self._device,
             self._sparse, self._second_name, self._mount],
            [10, 2, 2, 3, 4, 2, 1, 3, 1],
        )[0]  # fmt: skip
        try:
            os.makedirs(folder, exist_ok=True)
            if os.path.realpath(folder) != folder or os.path.lexists(path):
                return None
            make(path)
            if make != self._second_name:  # What it was linked to is left as it is.
                self._make_odd(path)
        except (OSError, ValueError, subprocess.CalledProcessError):
            return path if os.path.lexists(path) else None
        return path

    # Where, and under which name

    def _folder(self) -> bytes:
        known = [*FOLDERS, *(f"queues/{queue}" for queue in self._queues), ""]
        if self._random.randrange(4) == 0:
            # One that is there just now: of a batch, of a purge, of what was planted before.
            known += [
                os.fsdecode(os.path.relpath(os.path.join(top, name), self._root))
                for top, names, _ in os.walk(self._root)
                for name in names
            ]
        return os.fsencode(self._random.choice(known))

    def _name(self) -> bytes:
        number = self._random.getrandbits(128)
        some_id = self._random.choice(
            [
                _uuid(number, 4),
                _uuid(number, 7),
                _uuid(number >> 8, 7),
                "0",
                "-",
                "a" * 64,
                "A" * 65,
            ]
        )
        used = self._random.choice(self._queues)
        queue = self._random.choice([used, used, "other", f"{used}.dead", "q" * 80, "x.y"])
        count = str(number)[: self._random.randint(1, 25)]
        shape: Callable[[], Any] = self._random.choice([
            lambda: some_id,
            lambda: f"{queue}:{some_id}",
            lambda: f"{queue}:{some_id}~2",
            lambda: f".{queue}:{some_id}",
            lambda: f".{queue}:{some_id}.open",
            lambda: f"{queue}:.deleting",
            lambda: f"{queue}:.purged",
            lambda: f"{queue}:.{some_id}",
            lambda: f"{queue}:.{count}",
            lambda: f"group:.{count}",
            lambda: f"{queue}::{some_id}",
            lambda: f":{some_id}",
            lambda: f"{queue}:",
            lambda: f".{some_id}",
            lambda: ".settings",
            lambda: str(self._random.choice(["query.x.1", "driver.t1-x", f"floor.{count}", count,
                                         f"{count}.open.t1-x", f"{some_id}.open"])),
            lambda: "\u00e9\u202e\n\t'\"\\ *" + some_id[:5],
            lambda: self._bytes(self._random.randint(1, _LONGEST_NAME)),
            lambda: self._bytes(_LONGEST_NAME),
            lambda: f"{queue}:".encode() + self._bytes(20),
            lambda: "n" * _LONGEST_NAME,
        ])  # fmt: skip
        return os.fsencode(shape())

    def _bytes(self, count: int) -> bytes:
        return bytes(
            self._random.choice([c for c in range(1, 256) if c != 47]) for _ in range(count)
        )

    # What

    def _file(self, path: bytes) -> None:
        with open(path, "xb") as file:
            file.write(self._content())
        if self._random.randrange(2):
            self._set_attributes(path)

    def _content(self) -> bytes:
        return self._random.choice([
            b"",
            b"a body",
            self._random.randbytes(300),
            b"visibility=never\nmax-receives=-1\n" + self._random.randbytes(20),
            b'body\n{"x-meta-a":1}\n',
            b"\0" * 140_000,
        ])  # fmt: skip

    def _set_attributes(self, path: bytes) -> None:
        with suppress(OSError):
            os.setxattr(path, "user.mq", self._seal(os.stat(path).st_size))
            os.setxattr(path, "user.mime_type", self._random.randbytes(self._random.randrange(300)))
            os.setxattr(path, "user.mq.dead", self._random.randbytes(self._random.randrange(300)))

    def _seal(self, size: int) -> bytes:
        """Random bytes, or one that looks like a seal: with lengths that are true, or no file's."""
        draw = self._random
        if draw.randrange(2):
            return draw.randbytes(draw.choice([0, 1, 31, 32, 33, 47, 48, 49, 4000]))
        behind = draw.choice([0, 1, size, *_ODD_LENGTHS]) % (1 << 32)
        length = draw.choice([size, max(size - behind, 0), *_ODD_LENGTHS])
        times = (0, time.time_ns(), (1 << 63) - 1, (1 << 64) - 1)
        return Seal(
            length, draw.getrandbits(32), draw.choice(times), draw.choice([0, 3, (1 << 32) - 1]),
            draw.choice([0, 1, (1 << 64) - 1]), behind, draw.getrandbits(32), draw.choice(times),
        ).pack()  # fmt: skip

    def _mount(self, path: bytes) -> None:
        """Another file system in the middle of the root, with some files."""
        os.mkdir(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "mq-planted", path], check=True)
        self._mounted.append(path)
        self._file(os.path.join(path, self._name()))

    def _fifo(self, path: bytes) -> None:
        os.mkfifo(path)

    def _socket(self, path: bytes) -> None:
        os.mknod(path, stat.S_IFSOCK | 0o600)

    def _link(self, path: bytes) -> None:
        target = self._random.choice([
            b"/nonexistent", path, b".", b"..", b"/dev/zero", b"x" * 4000,
            self._treasure, os.path.join(self._treasure, b"gold"),
            os.path.join(self._root, b"format"), os.path.join(self._root, b"queues"),
        ])  # fmt: skip
        os.symlink(target, path)

    def _folder_of_files(self, path: bytes) -> None:
        os.mkdir(path)
        for _ in range(self._random.randrange(4)):
            inner = os.path.join(path, self._name())
            make = self._random.choice([self._file, self._fifo, self._link, os.mkdir])
            with suppress(OSError):
                make(inner)

    def _device(self, path: bytes) -> None:
        kind, major, minor = self._random.choice([
            (stat.S_IFCHR, 1, 5),  # zero: without an end
            (stat.S_IFCHR, 5, 0),  # tty
            (stat.S_IFCHR, 240, 99),  # none
            (stat.S_IFBLK, 7, 250),  # a loop without a file
        ])  # fmt: skip
        os.mknod(path, kind | 0o600, os.makedev(major, minor))

    def _sparse(self, path: bytes) -> None:
        with open(path, "xb") as file:
            file.truncate(_TIB)
        if self._random.randrange(2):
            self._set_attributes(path)

    def _second_name(self, path: bytes) -> None:
        """A hard link to what lies anywhere in the root: a message in two folders, or in one twice,
        or the file `format` as a message."""
        there = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(self._root)
            for name in names
            if stat.S_ISREG(os.lstat(os.path.join(folder, name)).st_mode)
            and not any(name.endswith(os.fsencode(each)) for each in self.spared)
        ]
        os.link(self._random.choice(there), path)

    def _make_odd(self, path: bytes) -> None:
        with suppress(OSError):
            if self._random.randrange(3) == 0:
                seconds = self._random.choice(_ODD_TIMES)
                os.utime(path, (seconds, seconds), follow_symlinks=False)
        draw = self._random.randrange(8)
        if draw == 0 and not os.path.islink(path):
            os.chmod(path, 0)
        elif draw == 1:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        elif draw == 2 and os.path.isfile(path) and not os.path.islink(path):
            done = subprocess.run(["chattr", "+i", path], check=False, capture_output=True)
            if done.returncode == 0:
                self._immutable.append(path)


def _uuid(number: int, version: int) -> str:
    text = f"{number:032x}"
    return "-".join([text[:8], text[8:12], f"{version}{text[13:16]}", f"8{text[17:20]}", text[20:]])
