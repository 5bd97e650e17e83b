"""Which folder outside of a root a reaper may work on. It unlinks all that is there.

A root that no server of MQ has opened yet, as softlayer/mq leaves it, has no file `format`. And
`remove` alone may be mounted somewhere, for a reaper in a container.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mq.errors import ExitCode, StartRefused
from mq.lifecycle import FIXED_FOLDERS, Folder
from mq.spool.root import is_of_a_removal


def require_removed(source: Path, names: Iterable[str]) -> None:
    """Raise StartRefused unless `source`, which has these names in it, is `remove` beside the other
    folders of a root, or holds removed messages and nothing else. An empty folder must have that
    name."""
    folder = Path(os.path.realpath(source))
    is_named = folder.name == Folder.REMOVE
    if is_named and all((folder.parent / each).is_dir() for each in FIXED_FOLDERS):
        return
    has_any = False
    for name in names:
        has_any = True
        if not is_of_a_removal(name):
            raise _refusal(source, f"holds {name!r}, which is not a removed message")
    if not has_any and not is_named:
        raise _refusal(source, f"is not called {Folder.REMOVE}")


def _refusal(source: Path, why: str) -> StartRefused:
    return StartRefused(
        ExitCode.FOLDERS,
        f"folder {source}: it is not in a root of MQ and {why}; a reaper would unlink all that is "
        "in it; give ROOT/remove",
    )
