"""Where the code syncs, locks and moves: found in the source, and recognised while it runs.

A site is the function that decides: one that only hands a call on for its caller is passed over.
So a site has a name that stays when lines move.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from functools import cache
from types import FrameType, ModuleType
from typing import Any

import pytest

from mq.disk import calls, file_work, files
from mq.disk.calls import Chain, _make_calls
from mq.disk.file_work import FileCalls
from mq.disk.files import Files
from mq.spool import locks, moves, open_queues, removed_folders, rolling, sets, sweep
from mq.spool.message import held, in_use, opening
from mq.spool.spark import settle
from mq.spool.spool import Spool
from mq.store import holding, indexing, shared_state
from mq.store.publishing import filling, parts, publish, twins
from mq.store.receiving import lease, taking
from mq.store.removing import remove_under_lease
from tests.support.sources import PACKAGES, module_name, package_files


def name_of(code: Callable[..., Any] | ModuleType) -> str:
    """The dotted name of a function, a method or a module."""
    if isinstance(code, ModuleType):
        return code.__name__
    return f"{code.__module__}.{code.__qualname__}"


def at(function: Callable[..., Any], what: str) -> str:
    """One sync or lock of a site: `what` is the folder that it syncs, or the call that locks."""
    return f"{name_of(function)}: {what}"


def is_named(site: str, names: Iterable[str]) -> bool:
    """Whether the site is one of these, or in one of these modules or packages."""
    return any(site == name or site.startswith(f"{name}.") for name in names)


def needless(names: Iterable[str], sites: Collection[str]) -> list[str]:
    """Those of the names that name none of the sites."""
    return [name for name in names if not any(is_named(site, [name]) for site in sites)]


class Kind(Enum):
    """What a site does, by the names of the functions it calls for it."""

    SYNC = frozenset({"sync", "sync_file_system", "make_durable", "Unsynced"})
    LOCK = frozenset(
        {"lock", "lock_shared", "lock_byte", "locked_folder", "shared", "lock_alone"}
        | {"hold", "hold_all", "hold_in", "hold_queue", "hold_set", "make_set", "lock_ids", "_hold"}
        | {
            "lock_names",
            "lock_names_in",
            "open_held",
            "holding",
            "reading",
            "readings",
            "linking",
            "try_locks",
        }
    )
    MOVE = frozenset(
        {
            "rename",
            "exchange",
            "link",
            "move",
            "move_call",
            "link_call",
            "move_aside",
            "move_held",
            "rename_all",
            "rename_calls",
            "rename_call",
            "rename_within",
        }
        | {
            "set_aside",
            "seal_set",
            "leave_to_reaper",
            "_set_aside",
            "linking",
            "_calls",
            "lease_calls",
        }
    )


PASSED_OVER = frozenset({
    name_of(calls._make_call),
    name_of(calls._make_calls),
    name_of(calls._run_in_python),
    name_of(calls.run),
    name_of(calls.run_one),
    name_of(Spool.move),
    name_of(Spool.move_aside),
    name_of(Spool.link),
    name_of(Spool.rename_within),
    name_of(file_work.do_together),
    name_of(file_work.make_calls),
    name_of(locks.lock_names),
    name_of(locks.lock_names_in),
    name_of(held.hold),
    name_of(held.hold_in),
    name_of(held.set_aside),
    name_of(in_use.try_locks),
    name_of(moves.Moves.exchange),
    name_of(moves.Moves.rename),
    name_of(moves.Moves.rename_all),
    name_of(moves.Moves.rename_calls),
    name_of(open_queues.OpenQueues._lock),
    name_of(open_queues.OpenQueues.hold),
    name_of(open_queues.OpenQueues.lock_alone),
    name_of(open_queues.OpenQueues.shared),
    name_of(opening.move_held),
    name_of(opening.open_held),
    name_of(opening.opened_by),
    name_of(opening.reading),
    name_of(opening.readings),
    name_of(removed_folders.leave_to_reaper),
    name_of(rolling._Rolling._step),
    name_of(sets.hold_set),
    name_of(sets.make_set),
    name_of(sets.seal_set),
    name_of(settle.set_aside),
    name_of(sweep.Sweeper._hold),
    name_of(filling.Batch._move),
    name_of(parts.BatchPart._writing),
    name_of(holding.hold),
    name_of(holding.hold_all),
    name_of(indexing.find_space),
    name_of(lease._calls),
    name_of(publish.linking),
    name_of(twins.lock_ids),
    name_of(remove_under_lease._move_beside),
    name_of(remove_under_lease._move_held),
    name_of(remove_under_lease._move_unusual),
    name_of(remove_under_lease._calls),
    name_of(taking.Taker.lease_calls),
    name_of(taking.Taker.readings),
    name_of(shared_state.Workspace.hold_queue),
})  # fmt: skip
"""What they do they do for their caller."""

_SEAM = name_of(files)
UPLOAD = name_of(files.Files.open_unnamed)
"""The one place within the seam that decides to lock."""


def sites_in_source(kind: Kind) -> set[str]:
    """Every function of the packages that syncs, locks or moves."""
    return {name for name, names_used in _names_in_source().items() if names_used & kind.value}


@cache
def _names_in_source() -> dict[str, set[str]]:
    """What each function that may be a site uses of the names in `Kind`."""
    sought = frozenset[str]().union(*(kind.value for kind in Kind))
    return {
        name: _names_used(function) & sought
        for path in package_files()
        if (module := module_name(path)) != _SEAM
        for name, function in _functions(ast.parse(path.read_text()), module)
        if name not in PASSED_OVER
    }


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}.{child.name}")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}.{child.name}", child


def _names_used(function: ast.AST) -> set[str]:
    """Return the names of functions that are called, and of methods, even if they are only passed
    on."""
    nodes = list(ast.walk(function))
    names = {node.func.id for node in nodes if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Name)}  # fmt: skip
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def running_site() -> str | None:
    """The site whose call is under way; None if no call of the packages is."""
    return _site_of(sys._getframe(1))


def _site_of(frame: FrameType | None) -> str | None:
    while frame is not None:
        if frame.f_code is _make_calls.__code__ and id(frame.f_locals["chain"]) in _asked:
            return _asked[id(frame.f_locals["chain"])][1]
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in PACKAGES:
            name = f"{module}.{frame.f_code.co_qualname.partition('.<locals>')[0]}"
            if name == UPLOAD or (module != _SEAM and name not in PASSED_OVER):
                return name
        frame = frame.f_back
    return None


_MOST_ASKED = 10_000

_asked: dict[int, tuple[Chain, str | None]] = {}
"""The site that asked for each of the last chains, which others make for it."""


def _note(kind: type[FileCalls], files: Files, chain: Chain) -> FileCalls:
    _asked.pop(id(chain), None)
    if len(_asked) >= _MOST_ASKED:
        del _asked[next(iter(_asked))]
    _asked[id(chain)] = chain, _site_of(sys._getframe(1))
    return _make(kind, files, chain)


_make = FileCalls.__new__


def note_askers(patch: pytest.MonkeyPatch) -> None:
    """Until `patch` is undone, `running_site` knows who asked for a chain that others make."""
    _asked.clear()
    patch.setattr(FileCalls, "__new__", _note)
