"""Stderr of a command that was started without one, as `2>&-` does."""

from __future__ import annotations

import os
import sys


def guard_stderr() -> None:
    """Drop what is written to stderr if it is closed."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
