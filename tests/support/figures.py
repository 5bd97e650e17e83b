"""Figures that a run of tests prints after its summary: tests/crash/conftest.py collects them."""

from __future__ import annotations

from collections.abc import Callable

PrintFigures = Callable[[str, str], None]
"""Takes the head of a table, and a line to put below it."""
