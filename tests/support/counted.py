"""How often a method is called."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


def counted_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Counter[str]:
    """Count the calls of a method that takes one argument, by that argument."""
    counted: Counter[str] = Counter()
    method = getattr(owner, name)

    def count(self: Any, argument: str) -> Any:
        counted[argument] += 1
        return method(self, argument)

    monkeypatch.setattr(owner, name, count)
    return counted
