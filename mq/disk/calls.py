"""File calls as values, and how those of many operations are made at once.

A call is a tuple: its kind, then its arguments, which are mostly those of the method of `Files`
with the kind's name. In place of a descriptor it may have `~number`: what call `number` of the same
chain has opened.

    chain = (
        (OPEN_MESSAGE, folder_fd, name),
        (LOCK, ~0),
        (STATUS, ~0),
        (READ, ~0, 2, limit),
        (CLOSE, ~0),
    )

A chain ends at the first call that fails. The native part (`native.c`) makes the calls of all
chains with the GIL released once. Without it, and whenever another class is in the place of
`Files`, they are made in Python, one method of `Files` after the other: the same calls in the same
order, with the same outcome.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from operator import itemgetter
from types import ModuleType
from typing import Any, Final

from mq.disk.files import LACKS_RENAME_FLAGS, LACKS_UNNAMED_FILES, Files
from mq.disk.status import SIZE, fields, status

Call = tuple[Any, ...]
Chain = tuple[Call, ...]

Outcome = tuple[list[Any], int]
"""The results of the calls that succeeded, and the errno of the next one, or 0 if all did. If a
chain fails, what it opened is closed, and the result of the call that opened it is -1, as it is
where the chain itself has closed it."""

CODE = itemgetter(1)
"""Takes the errno out of an outcome."""

_KINDS: Final = {
    "OPEN_UNNAMED": "fi",
    "OPEN_MESSAGE": "fn",
    "OPEN_TO_LOOK": "fn",
    "WRITE": "fb",
    "READ": "fsi",
    "LOCK": "f",
    "STATUS": "f",
    "STATUS_OF": "fn",
    "ABSENT": "fn",
    "SET_ATTRIBUTE": "fnb",
    "ATTRIBUTE": "fn",
    "STAMP": "fi",
    "LINK": "ffn",
    "RENAME": "fnfn",
    "WRITE_OUT": "fi",
    "SYNC": "f",
    "CLOSE": "f",
}
"""What each kind takes, as in native.c. f: a descriptor; n: a name; b: bytes; i: an integer from 0
to 2**63 - 1; s: the number of the call in this chain that asked for the file's status."""

OPEN_UNNAMED = 0
"""(folder_fd, mode): a descriptor."""

OPEN_MESSAGE = 1
"""(folder_fd, name): a descriptor."""

OPEN_TO_LOOK = 2
"""(folder_fd, name): a descriptor. Reading leaves the access time as it is if the file belongs to
this user."""

WRITE = 3
"""(fd, data)"""

READ = 4
"""(fd, number, limit): all the bytes that the status has; None if those are more than `limit`."""

LOCK = 5
"""(fd); fails with EWOULDBLOCK if another process has the lock."""

STATUS = 6
"""(fd): the fields of a `Status`."""

STATUS_OF = 7
"""(folder_fd, name): the fields of a `Status`."""

ABSENT = 8
"""(folder_fd, name); fails with EEXIST if there is something of that name, as access(2) finds."""

SET_ATTRIBUTE = 9
"""(fd, attribute, value)"""

ATTRIBUTE = 10
"""(fd, attribute): its value, or None."""

STAMP = 11
"""(fd, mtime_ns)"""

LINK = 12
"""(fd, folder_fd, name)"""

RENAME = 13
"""(source_fd, source, target_fd, target)"""

WRITE_OUT = 14
"""(fd, flags) of sync_file_range(2), as `Files.write_out` has them."""

SYNC = 15
"""(fd), for a file only: a folder may need more, as in `Files.sync`."""

CLOSE = 16
"""(fd)"""

_METHODS = tuple(kind.lower() for kind in _KINDS)
_FILES_AT = tuple(
    tuple(at for at, argument in enumerate(arguments) if argument == "f")
    for arguments in _KINDS.values()
)
_OPENING = (OPEN_UNNAMED, OPEN_MESSAGE, OPEN_TO_LOOK)
_ASKING = (STATUS, STATUS_OF)

_WAYS_ROUND = {
    OPEN_UNNAMED: LACKS_UNNAMED_FILES,
    OPEN_TO_LOOK: {errno.EPERM},
    RENAME: LACKS_RENAME_FLAGS,
}
"""Failures after which `Files` has another way to do the same."""

CHAINS_AT_ONCE = 128
"""At most this many chains are made in one run. With more, threads wait less for one another, as
the GIL is released for longer; with fewer, a failure is seen sooner."""

VARIABLE = "MQ_NATIVE"
"""The environment variable that switches the native part off, if it is 0 or `off`."""

_OFF = {"0", "off", "no", "false"}


class CallState(StrEnum):
    """Whether the native part can make calls, and if not, why."""

    COMPILED = "compiled"
    SWITCHED_OFF = "switched-off"
    NOT_COMPILED = "not-compiled"
    OF_ANOTHER_VERSION = "other-version"


def _load() -> tuple[ModuleType | None, CallState]:
    if os.environ.get(VARIABLE, "").lower() in _OFF:
        return None, CallState.SWITCHED_OFF
    try:
        from mq.disk import _native  # noqa: PLC0415
    except ImportError:
        return None, CallState.NOT_COMPILED
    listed = "".join(f"{kind} {arguments}\n" for kind, arguments in _KINDS.items())
    if listed != _native.CALLS:
        return None, CallState.OF_ANOTHER_VERSION
    return _native, CallState.COMPILED


_native, STATE = _load()


def run(files: Files, chains: Sequence[Chain]) -> list[Outcome]:
    """Make the calls of all chains: all calls of the first chain, as far as it goes, then those of
    the next.

    A malformed chain is a defect of the code that made it. It raises TypeError, ValueError or
    OverflowError, mostly before any call was made. After these and MemoryError nothing that the
    chains opened is open.
    """
    if _native is None or not _are_plain(files):
        return _run_in_python(files, chains)
    outcomes: list[Outcome] = _native.run(chains)
    if any(map(CODE, outcomes)):
        for at, (results, code) in enumerate(outcomes):
            if code:
                outcomes[at] = _end_in_python(files, chains[at], results, code)
    return outcomes


def run_one(files: Files, chain: Chain) -> Outcome:
    """Make the calls of one chain as `run` does, in less time."""
    if _native is None or not _are_plain(files):
        return _run_in_python(files, (chain,))[0]
    outcome: Outcome = _native.run((chain,))[0]
    return _end_in_python(files, chain, *outcome) if outcome[1] else outcome


def check(outcome: Outcome) -> list[Any]:
    """Return the results of a chain. Raises OSError if one of its calls failed."""
    results, code = outcome
    if code:
        raise OSError(code, os.strerror(code))
    return results


def _are_plain(files: Files) -> bool:
    """Return whether each method of `files` is the kernel's call of that name and does nothing
    else."""
    return type(files) is Files and files.renames_without_replacing and files.has_unnamed_files


def _end_in_python(files: Files, chain: Chain, results: list[Any], code: int) -> Outcome:
    """Go on in Python with a chain whose native run stopped at a call that failed."""
    if code in _WAYS_ROUND.get(chain[len(results)][0], ()):
        code = _make_calls(files, chain, results)
    if code:
        _close_opened(files, chain, results)
    return results, code


def _run_in_python(files: Files, chains: Sequence[Chain]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    results: list[Any] = []
    try:
        for chain in chains:
            results = []
            code = _make_calls(files, chain, results)
            if code:
                _close_opened(files, chain, results)
            outcomes.append((results, code))
    except BaseException:
        for chain, (done, _) in zip(chains, [*outcomes, (results, 0)], strict=False):
            _close_opened(files, chain, done)
        raise
    return outcomes


def _make_calls(files: Files, chain: Chain, results: list[Any]) -> int:
    """Make the calls that have no result yet. Returns 0, or the errno of one that failed."""
    for call in chain[len(results) :]:
        try:
            results.append(_make_call(files, chain, call, results))
        except OSError as error:
            return error.errno or errno.EIO
    return 0


def _make_call(files: Files, chain: Chain, call: Call, results: list[Any]) -> Any:
    kind, *arguments = call
    opened = -1
    for at in _FILES_AT[kind]:
        if arguments[at] < 0:
            opened = ~arguments[at]
            if opened >= len(results) or chain[opened][0] not in _OPENING:
                raise _wrong_reference(results)
            arguments[at] = results[opened]
            if arguments[at] < 0:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    if kind == READ:
        fd, asked, limit = arguments
        if chain[asked][0] not in _ASKING:
            raise _wrong_reference(results)
        size = results[asked][SIZE]
        return files.read(fd, size) if size <= limit else None
    if kind in _ASKING:
        return status(*arguments) if kind == STATUS else fields(files.status_of(*arguments))
    if kind == ABSENT:
        if files.exists(*arguments):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        return None
    result = getattr(files, _METHODS[kind])(*arguments)
    if kind == LOCK:
        if not result:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        return None
    if kind == CLOSE and opened >= 0:
        results[opened] = -1
    return result


def _close_opened(files: Files, chain: Chain, results: list[Any]) -> None:
    for number, call in enumerate(chain[: len(results)]):
        if call[0] in _OPENING and results[number] >= 0:
            with suppress(OSError):
                files.close(results[number])
            results[number] = -1


def _wrong_reference(results: list[Any]) -> ValueError:
    return ValueError(f"file call {len(results)} of a chain refers to a wrong one")
