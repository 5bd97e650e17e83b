"""Where it is measured: in memory, on ext4 with a journal and on xfs, in files of their own; or in
folders that the caller names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mq.spool.file_system import file_system_kind

_MEMORY = Path("/dev/shm")
_BYTES = 3 * 2**30
"""Of each file system. Memory and sparse files take only what is written. Room for the log that xfs
makes by default."""

_MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-N", "400000"),
    "xfs": ("mkfs.xfs", "-q"),
}


@contextmanager
def folders(named: Sequence[Path]) -> Iterator[Mapping[str, Path]]:
    """Yield for each place its name and a folder of our own there, which is removed at the end."""
    with ExitStack() as stack:
        places = {f"{file_system_kind(path)} {path}": path for path in named}
        if not places and os.geteuid() == 0:
            places = stack.enter_context(_made())
        yield {
            name: stack.enter_context(_own_folder(path))
            for name, path in (places or _found()).items()
        }


@contextmanager
def _own_folder(path: Path | None = None) -> Iterator[Path]:
    """Yield a folder that others may go through: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory(prefix="mq-", dir=path) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@contextmanager
def _made() -> Iterator[dict[str, Path]]:
    """Yield fresh file systems; none, with a word, where root may not mount any."""
    with ExitStack() as stack:
        made = {}
        try:
            made["tmpfs"] = stack.enter_context(_mounted("tmpfs", "-t", "tmpfs", "-o", "mode=711"))
            for kind, (command, *options) in _MAKE.items():
                if shutil.which(command) is None:
                    print(f"no {kind}: {command} is missing", file=sys.stderr)
                    continue
                image = stack.enter_context(_own_folder()) / "image"
                with image.open("wb") as file:
                    file.truncate(_BYTES)
                subprocess.run([command, *options, str(image)], check=True)
                made[kind] = stack.enter_context(_mounted(str(image), "-o", "loop"))
        except subprocess.CalledProcessError as error:
            print(f"no file systems of our own: {error}", file=sys.stderr)
            made.clear()
        yield made


@contextmanager
def _mounted(what: str, *options: str) -> Iterator[Path]:
    with _own_folder() as folder:
        subprocess.run(["mount", *options, what, str(folder)], check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)


def _found() -> dict[str, Path]:
    """Return the disks that exist, for users other than root."""
    temporary = Path(tempfile.gettempdir())
    print(f"only root can mount file systems of its own: {temporary} takes their place; name other "
          "folders as arguments", file=sys.stderr)  # fmt: skip
    found = {file_system_kind(temporary): temporary}
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _BYTES
    return {"tmpfs": _MEMORY, **found} if has_room else found
