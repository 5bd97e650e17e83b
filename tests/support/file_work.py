"""File work and operations without a committer."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mq.disk.file_work import FileCalls, make_calls


def run_to_need(work: Generator[Any, Any, Any]) -> Any:
    """Make the file calls of an operation up to what else it needs, which is returned; None if it
    came to its end."""
    answer: Any = None
    while True:
        try:
            need = work.send(answer)
        except StopIteration:
            return None
        if not isinstance(need, FileCalls):
            return need
        (answer,) = make_calls([need])
