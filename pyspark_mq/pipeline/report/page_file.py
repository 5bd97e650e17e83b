"""The file of a page, written whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode

_MODE = 0o644


def check_page_file(path: Path) -> None:
    """Raise CommandFailed unless the page can be written: before the work, not after it."""
    folder = path.resolve().parent
    if path.is_dir():
        raise CommandFailed(ExitCode.USAGE, f"--html {path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise CommandFailed(
            ExitCode.USAGE,
            f"--html {path} is a device or the like, which the page would replace; name a file",
        )
    if not folder.is_dir():
        raise CommandFailed(
            ExitCode.USAGE, f"--html {path}: there is no folder {folder}; make it, or name another"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandFailed(
            ExitCode.ROOT, f"--html {path}: {folder} cannot be written; name another folder"
        )


def write_page(path: Path, page: str, files: Files) -> None:
    """Put the page in the place of the file, if there is one, in one step and durably.

    A reader finds the old page or the new one, and an error or a crash leaves the old one. Raises
    CommandFailed.
    """
    # Behind a link the page goes where that leads.
    path = path.resolve()
    try:
        folder = files.open_folder(None, str(path.parent))
        try:
            _replace(files, folder, path.name, page.encode("utf-8", "replace"))
        finally:
            files.close(folder)
    except OSError as error:
        raise CommandFailed(
            ExitCode.ROOT,
            f"--html {path} was not written, and is as it was: {error.strerror or error}",
        ) from None


def _replace(files: Files, folder: int, name: str, data: bytes) -> None:
    fd = files.open_unnamed(folder, _MODE)
    try:
        files.write(fd, data)
        files.sync(fd)
        draft = f".{uuid.uuid4()}.draft"
        files.link(fd, folder, draft)
        try:
            files.replace(folder, draft, folder, name)
        except OSError:
            files.unlink(folder, draft)
            raise
        files.sync(folder)
    finally:
        files.close(fd)
