"""The file of `--token-file`."""

from __future__ import annotations

from pathlib import Path


def make_token_file(folder: Path, *lines: str) -> Path:
    """Write a file with these lines into the folder, which only this user may read."""
    path = folder / "tokens"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines))
    return path
