"""`mqctl fsck`: run the check, print each finding, and show the progress."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mq.command.stdout import printable
from mq.ctl.common_flags import CommonFlags
from mq.ctl.screen.progress import ProgressBar
from mq.ctl.ways.run_as_owner import as_owner
from mq.errors import CommandFailed, ExitCode
from mq.fsck.check import Check, Treatment
from mq.fsck.suspect import Finding
from mq.spool.network_files import files_for


def check_and_print(root: Path, treat: Treatment, flags: CommonFlags) -> int:
    """Check a root and print each finding. Returns how many findings remain. Raises
    CommandFailed."""
    remaining = 0
    bar = ProgressBar("checking")

    def progress(done: int, total: int) -> None:
        bar.total = max(total, done)
        bar.tell(done)

    with as_owner(root), bar, _disk_errors(root):
        for finding in Check(root, files_for(root), treat, progress).run():
            bar.clear()
            _print(finding, flags)
            remaining += finding.repair is None
    return remaining


def _print(finding: Finding, flags: CommonFlags) -> None:
    if flags.as_json:
        click.echo(json.dumps(finding._asdict() | {"path": printable(finding.path)}))
    else:
        done = "" if finding.repair is None else f"; {finding.repair}"
        click.echo(printable(f"{finding.path}: {finding.kind}: {finding.detail}{done}"))


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandFailed(
            ExitCode.ROOT, f"root {root}: {error.strerror}: {error.filename or root}"
        ) from error
