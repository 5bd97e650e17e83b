"""File systems of a test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path


class LoopMount:
    """A file system in a file, made with `options`, mounted on a folder with those of `mount`."""

    def __init__(
        self, kind: str, folder: Path, megabytes: int, *options: str, mount: tuple[str, ...] = ()
    ) -> None:
        self.image = folder / f"{kind}.img"
        self.path = folder / kind
        self.path.mkdir()
        with self.image.open("wb") as image:
            image.truncate(megabytes * 1024 * 1024)
        subprocess.run([f"mkfs.{kind}", "-q", *options, str(self.image)], check=True)
        subprocess.run(
            ["mount", "-o", ",".join(("loop", *mount)), str(self.image), str(self.path)], check=True
        )

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
        self.image.unlink()
