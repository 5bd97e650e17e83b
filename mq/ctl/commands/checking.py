"""`mqctl fsck`: run the check, print each finding, and show the progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mq.command.pace import CLEAR_LINE
from mq.command.stdout import printable
from mq.ctl.common_flags import CommonFlags
from mq.ctl.ways.run_as_owner import as_owner
from mq.errors import CommandFailed, ExitCode
from mq.fsck.check import Check, Treatment
from mq.fsck.suspect import Finding
from mq.spool.network_files import files_for

_SHOW_EVERY = 500
"""The progress is shown after this number of names."""


def check_and_print(root: Path, treat: Treatment, flags: CommonFlags) -> int:
    """Check a root and print each finding. Returns how many findings remain. Raises
    CommandFailed."""
    remaining = 0
    is_shown = sys.stderr.isatty()
    bar = click.progressbar(length=1, label="checking", file=sys.stderr, hidden=not is_shown)

    def progress(done: int, total: int) -> None:
        if is_shown and (done % _SHOW_EVERY == 0 or done >= total):
            bar.length = max(total, done)
            bar.update(done - bar.pos)

    with as_owner(root), bar, _disk_errors(root):
        for finding in Check(root, files_for(root), treat, progress).run():
            if is_shown:
                click.echo(CLEAR_LINE, nl=False, err=True)
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
