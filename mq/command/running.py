"""How a command runs: errors as one line, named exit codes, and when it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from mq.command.stderr import drop_stderr_if_gone, guard_stderr
from mq.command.stdin import guard_stdin
from mq.command.stdout import ReaderGone, drop_stdout, guard_stdout, printable
from mq.errors import CommandFailed, ExitCode

PARENT_VARIABLE = "MQ_PARENT_PID"
"""`mq --standalone` sets it for its children, which end when that process ends."""

HELP_FLAGS = ["-h", "--help"]
"""What shows the flags of a command."""

_PR_SET_PDEATHSIG = 1

_NO_THREAD = "start new thread"
"""What Python says of a thread for which the system has no room: that error has no class of its
own."""

EXIT_CODES = {
    ExitCode.OK: "stopped as asked",
    ExitCode.USAGE: "a flag has a bad value",
    ExitCode.FORMAT: "the root has an unknown format version",
    ExitCode.UNAVAILABLE: "the address or port cannot be bound",
    ExitCode.SOFTWARE: "a defect: please report it",
    ExitCode.SYSTEM: "this system lacks something MQ needs",
    ExitCode.ROOT: "a folder cannot be made, read or written",
    ExitCode.OUTPUT: "stdout cannot be written",
    ExitCode.OWNER: "the root belongs to another user",
    ExitCode.FOLDERS: "the folders are on different file systems, or not those of one root",
}
"""What `--help` says about each exit code of the server, the mover and the reaper."""


def run(command: click.Command, meanings: Mapping[ExitCode, str] = EXIT_CODES) -> NoReturn:
    """Run a command. An error is one line on stderr, and the exit code says its kind."""
    _follow_parent()
    guard_stdin()
    guard_stdout()
    guard_stderr()
    try:
        code = command.main(
            prog_name=command.name, standalone_mode=False, help_option_names=HELP_FLAGS
        )
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    except ReaderGone:
        drop_stdout()
        code = 128 + signal.SIGPIPE
    except SystemExit as error:
        # click ends like this on EPIPE of stderr. EPIPE of stdout is a ReaderGone.
        is_closed = isinstance(error.__context__, BrokenPipeError)
        code = 128 + signal.SIGPIPE if is_closed else error.code
    except NoArgsIsHelpError as error:
        code = ExitCode.USAGE
        click.echo(error.format_message(), err=True)
    except Exception as error:
        code, detail = _explain(error)
        if code is ExitCode.OUTPUT:
            drop_stdout()
        detail = printable(" ".join(detail.split()))
        with suppress(OSError):
            hint = _help_for(error) or meanings[code]
            click.echo(f"{command.name}: {detail} (exit {code.value}: {hint})", err=True)
    drop_stderr_if_gone()
    sys.exit(code)


def exit_codes_text(meanings: Mapping[ExitCode, str] = EXIT_CODES) -> str:
    """Return the list of exit codes for the end of `--help`."""
    codes = "\n".join(f"{code.value:>4}  {meanings[code]}" for code in sorted(meanings))
    return f"\b\nExit codes:\n{codes}"


def _explain(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, click.ClickException):
        return ExitCode.USAGE, error.format_message()
    if isinstance(error, CommandFailed):
        return error.exit_code, str(error)
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return ExitCode.SYSTEM, (
            "the system has no thread left for it: raise its limit of processes (ulimit -u, "
            "TasksMax= of a unit, pids_limit of a container)"
        )
    traceback.print_exception(error)
    return ExitCode.SOFTWARE, "an unexpected error; the lines above say where"


def _help_for(error: Exception) -> str | None:
    """Return what shows the right command line after a wrong one, None after any other error."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return None if context is None else f"see {context.command_path} {HELP_FLAGS[-1]}"


def _follow_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends, even if that was by SIGKILL (prctl(2)).

    A stopped process would keep SIGTERM for later, and these children may be killed anywhere.
    """
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit(ExitCode.OK)
