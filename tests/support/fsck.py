"""Checks of a root, without the command around them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from mq.disk.files import Files
from mq.fsck.check import Check, Treatment, mend, report
from mq.fsck.suspect import Finding
from mq.spool.spool import Spool
from tests.support.messages import seal_of, write_message

SETTLE_SECONDS = 0.05


class Fsck:
    """fsck as another process runs it, on the same kind of file system. `meanwhile` happens between
    its two looks at what may be work under way, `on_progress` before each file."""

    def __init__(self, spool: Spool) -> None:
        self.root = spool.root
        self.files: Callable[[], Files] = type(spool.files)
        self.meanwhile: Callable[[], object] = lambda: None
        self.on_progress: Callable[[], object] = lambda: None

    def report(self) -> list[Finding]:
        return self._run(report)

    def mend(self) -> list[Finding]:
        return self._run(mend)

    def _run(self, treat: Treatment) -> list[Finding]:
        check = Check(
            self.root, self.files(), treat, self._progress,
            settle_seconds=SETTLE_SECONDS, sleep=self._sleep,
        )  # fmt: skip
        return list(check.run())

    def _progress(self, done: int, total: int) -> None:
        self.on_progress()

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.meanwhile()

    def assert_mends(self, kind: str, path: str, detail: str, repair: str) -> None:
        """Assert that this is the one finding as often as nobody mends it, and that it is mended
        once and never found again."""
        for _ in range(2):
            (found,) = self.report()
            assert (found.kind, found.path, found.repair) == (kind, path, None)
            assert detail in found.detail
        (mended,) = self.mend()
        assert (mended.kind, mended.path) == (kind, path)
        assert repair in str(mended.repair)
        assert "not repaired" not in mended.detail
        assert self.report() == []


def everything(root: Path) -> dict[str, bytes]:
    """Return every file's body by its path."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def sealed(path: Path, body: bytes = b"body") -> Path:
    """Write a message as a server does."""
    return write_message(path, body, seal=seal_of(body))


def published_later(path: Path) -> Path:
    """Write a message that was published just after another one with its body."""
    seal = seal_of(b"body")
    return write_message(path, b"body", seal=seal._replace(published_ns=seal.published_ns + 1))
