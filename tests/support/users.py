"""Another user than the one who runs the tests, for what only root can try."""

from __future__ import annotations

import os

import pytest

NOBODY = 65534

BECOME_NOBODY = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
"""Code to run in a process of its own. What it imports later must be readable by everybody."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
