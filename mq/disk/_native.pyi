"""What `native.c` offers; `mq.disk.calls` says what it means."""

from collections.abc import Iterable
from typing import Any

CALLS: str

def run(chains: Iterable[tuple[tuple[Any, ...], ...]], /) -> list[tuple[list[Any], int]]: ...
