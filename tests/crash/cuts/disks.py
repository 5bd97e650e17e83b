"""Small file systems in files, cut off while they are in use, and mounted again."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import wait_until

MEGABYTES = {"ext4": 64, "xfs": 320, "btrfs": 256}
"""The least that mkfs.xfs makes, little more than the least of mkfs.btrfs."""

_SHUTDOWN = 0x8004587D
"""FS_IOC_SHUTDOWN, _IOR('X', 125, __u32): ext4 and xfs."""

_CLONE = 0x40049409
"""FICLONE, _IOW(0x94, 9, int), see ioctl_ficlone(2)."""

FLUSH_ALL, FLUSH_LOG, FLUSH_NOTHING = 0, 1, 2
"""What is written before nothing is any more: all, the log, nothing at all."""


class DiskOptions(NamedTuple):
    """What a file system is made and mounted with; `mount` as for `mount -o`."""

    mkfs: tuple[str, ...] = ()
    mount: str = "defaults"


USUAL = DiskOptions()

OPTIONS_OF_EXT4 = {
    "fast commits": DiskOptions(("-O", "fast_commit")),
    "data in the journal": DiskOptions(mount="data=journal"),
    "fast commits, data in the journal": DiskOptions(("-O", "fast_commit"), "data=journal"),
    "blocks of 1 KiB, written at once": DiskOptions(("-b", "1024"), "nodelalloc"),
    "renames that flush nothing": DiskOptions(mount="auto_da_alloc=0"),
    "clusters, small files in their inodes": DiskOptions(("-O", "bigalloc,inline_data")),
    "as ext3": DiskOptions(("-t", "ext3")),
}
"""What changes how the journal of ext4, or the data of a file, comes to the disk."""


class CutDisk:
    """A file system whose image is a file on `host`, a file system that has FICLONE."""

    def __init__(
        self, kind: str, host: Path, mount_point: Path, options: DiskOptions = USUAL
    ) -> None:
        self.path = mount_point
        self._options = f"loop,{options.mount}"
        self.path.mkdir()
        self._image = host / f"{kind}.img"
        self._copy = host / f"{kind}.copy"
        self._survivor = self._image
        with self._image.open("wb") as image:
            image.truncate(MEGABYTES[kind] << 20)
        command = [f"mkfs.{kind}", "-q", *options.mkfs, str(self._image)]
        subprocess.run(command, check=True)
        self.mount()

    def mount(self) -> None:
        """What survived; the file system replays its log."""
        self._survivor.replace(self._image)
        self._survivor = self._image
        command = ["mount", "-o", self._options, str(self._image), str(self.path)]
        subprocess.run(command, check=True)

    def unmount(self) -> None:
        """Wait until no process has a file open, and no other mount namespace the file system."""
        unmount = ["umount", str(self.path)]
        wait_until(
            lambda: subprocess.run(unmount, capture_output=True, check=False).returncode == 0
        )
        find = ["losetup", "--associated", str(self._image)]
        wait_until(lambda: not subprocess.run(find, capture_output=True, check=True).stdout, 60)

    def shut_down(self, flush: int) -> None:
        """From this instant on nothing reaches the disk, and every call fails."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", flush))
        finally:
            os.close(fd)

    def copy(self) -> None:
        """Keep the image as it is at one instant; that is what is mounted next.

        Writes to a file that is cloned wait, so the copy has every write that the loop device had
        finished, and of those under way, which nobody was told are done, any part.
        """
        source = os.open(self._image, os.O_RDONLY)
        target = os.open(self._copy, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            fcntl.ioctl(target, _CLONE, source)
        finally:
            os.close(source)
            os.close(target)
        self._survivor = self._copy

    def discard(self) -> None:
        """Whatever state it is in, nothing stays mounted."""
        subprocess.run(["umount", "--lazy", str(self.path)], capture_output=True, check=False)


Cut = Callable[[CutDisk], None]

WAYS: dict[str, dict[str, Cut]] = {
    "ext4": {
        "shut down, nothing flushed": lambda disk: disk.shut_down(FLUSH_NOTHING),
        "image copied": CutDisk.copy,
        "shut down, log flushed": lambda disk: disk.shut_down(FLUSH_LOG),
        "shut down, all flushed": lambda disk: disk.shut_down(FLUSH_ALL),
    },
    "btrfs": {"image copied": CutDisk.copy},
}
WAYS["xfs"] = WAYS["ext4"]
