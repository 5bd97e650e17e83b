"""Where the code syncs, locks and moves: found in the source, and recognised while it runs.

A site is the function that decides: one that only hands a call on for its caller is passed over.
So a site has a name that stays when lines move.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from enum import Enum
from types import FrameType

from tests.support.sources import PACKAGES, module_name, package_files, parse


class Kind(Enum):
    """What a site does, by the names of the functions it calls for it."""

    SYNC = frozenset({"sync", "sync_file_system", "make_durable", "Unsynced"})
    LOCK = frozenset(
        {"lock", "lock_shared", "lock_byte", "locked_folder"}
        | {"hold", "hold_in", "hold_queue", "hold_set", "make_set", "lock_ids", "_hold"}
    )
    MOVE = frozenset(
        {"rename", "link", "move", "move_call", "link_call", "move_aside", "rename_within"}
        | {"set_aside", "seal_set", "give_up_set", "_set_aside"}
    )


PASSED_OVER = frozenset({
    "mq.spool.calls._make_call",
    "mq.spool.calls._make_calls",
    "mq.spool.calls._run_in_python",
    "mq.spool.calls.run",
    "mq.spool.folders.Spool.move",
    "mq.spool.folders.Spool.move_aside",
    "mq.spool.folders.Spool.link",
    "mq.spool.folders.Spool.rename_within",
    "mq.spool.message._lock_and_check",
    "mq.spool.message.hold",
    "mq.spool.message.hold_in",
    "mq.spool.message.set_aside",
    "mq.spool.moves.Moves.rename",
    "mq.spool.open_queues.OpenQueues.hold",
    "mq.spool.sets._Rolling._step",
    "mq.spool.sets.give_up_set",
    "mq.spool.sets.hold_set",
    "mq.spool.sets.make_set",
    "mq.spool.sets.seal_set",
    "mq.spool.spark.settle.set_aside",
    "mq.spool.sweep.Sweeper._hold",
    "mq.store.batch.Batch._writing",
    "mq.store.holding.hold",
    "mq.store.indexing.find_space",
    "mq.store.own_id.lock_ids",
    "mq.store.context.Workspace.hold_queue",
})  # fmt: skip
"""What they do they do for their caller."""

_SEAM = "mq.spool.files"
UPLOAD = "mq.spool.files.Files.open_unnamed"
"""The one place within the seam that decides to lock."""


def sites_in_source(kind: Kind) -> set[str]:
    """Every function of the packages that syncs, locks or moves."""
    found = set()
    for path in package_files():
        module = module_name(path)
        if module != _SEAM:
            for name, function in _functions(parse(path), module):
                if name not in PASSED_OVER and _names_used(function) & kind.value:
                    found.add(name)
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}.{child.name}")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}.{child.name}", child


def _names_used(function: ast.AST) -> set[str]:
    """Of functions that are called, and of methods, also those that are passed on."""
    nodes = list(ast.walk(function))
    names = {node.func.id for node in nodes if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Name)}  # fmt: skip
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def running_site() -> str | None:
    """The site whose call is under way; None if it is none of the packages'."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in PACKAGES:
            name = f"{module}.{frame.f_code.co_qualname.partition('.<locals>')[0]}"
            if name == UPLOAD or (module != _SEAM and name not in PASSED_OVER):
                return name
        frame = frame.f_back
    return None
