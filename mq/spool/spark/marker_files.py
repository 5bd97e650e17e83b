"""Facts in names: `KIND.VALUE`, an empty file, whose value changes by one rename."""

from __future__ import annotations

import re

from mq.lifecycle import Folder
from mq.spool.spool import Spool

_MAX_LOOKS = 100

_NUMBER = re.compile("0|[1-9][0-9]{0,18}")


def parse_number(name: str) -> int | None:
    """Return the number that a name is, or None for any other name. A number in other digits (`²`)
    or with leading zeros is refused, because it would not lead back to its name."""
    return int(name) if _NUMBER.fullmatch(name) else None


class Markers:
    """The markers in one folder below `spark`."""

    def __init__(self, spool: Spool, path: str) -> None:
        self._spool = spool
        self._path = path

    def make(self, kind: str, value: str) -> None:
        """Make a marker. Raises FileExistsError."""
        files, fd = self._spool.files, self._spool.fd(Folder.SPARK)
        empty = files.open_unnamed(fd, self._spool.file_mode)
        try:
            self._spool.link(empty, Folder.SPARK, self._name(kind, value))
        finally:
            files.close(empty)

    def values(self, kind: str) -> list[str]:
        """Return the value of a marker; two if a change stopped between link and unlink; none if
        there is no marker. It exists at every instant, but a listing can miss a name that is
        renamed meanwhile, so this looks again."""
        for _ in range(_MAX_LOOKS):
            names = self._spool.names_below(Folder.SPARK, self._path)
            found = [each.removeprefix(f"{kind}.") for each in names if each.startswith(f"{kind}.")]
            if found:
                return found
        return []

    def change(self, kind: str, old: str, new: str) -> bool:
        """Change a marker's value. This is not durable by itself. Returns False if its value is not
        `old`: another process was faster."""
        if old == new:
            return True
        try:
            self._spool.rename_within(Folder.SPARK, self._name(kind, old), self._name(kind, new))
        except FileNotFoundError:
            return False
        return True

    def _name(self, kind: str, value: str) -> str:
        return f"{self._path}/{kind}.{value}"
