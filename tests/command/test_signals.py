"""Signals that come while a command is still importing what it needs, or waits for a disk."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import wait_until

HUNG = """
import ctypes, runpy, sys
from mq.spool import network_files

def hang(folder):
    # As no signal ends a call that waits for a file server.
    mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    libc.pthread_mutex_lock(mutex)
    print("waits", file=sys.stderr, flush=True)
    while True:
        libc.pthread_mutex_lock(mutex)

network_files.files_for = hang
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""
"""Runs a module whose folders never open."""

AT_IMPORT = """
import os, runpy, sys

_, module, number, at, *arguments = sys.argv
sys.argv[1:] = arguments

class Signalling:
    def find_spec(self, name, *_):
        if name == at:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Signalling())
runpy.run_module(module, run_name="__main__")
"""
"""Runs a module, and sends itself a signal when it comes to an import."""


def end_at_import(
    module: str, number: signal.Signals, at: str, *arguments: str
) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT, module, str(int(number)), at, *arguments],
        check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", ["mq", "mq_sqs", "mq_mover", "mq_reaper"])
def test_a_process_that_is_still_importing_stops_as_asked(
    module: str, number: signal.Signals
) -> None:
    assert end_at_import(module, number, "click") == (0, "", "")


def test_a_check_that_is_cut_short_does_not_say_that_a_server_can_start(tmp_path: Path) -> None:
    flags = "--check", f"--root={tmp_path}"

    code, said, _ = end_at_import("mq", signal.SIGTERM, "mq.spool.abilities", *flags)

    assert (code, said) == (-signal.SIGTERM, "")


def test_ctrl_c_ends_mqctl_without_a_traceback_before_it_has_begun() -> None:
    assert end_at_import("mq.ctl", signal.SIGINT, "click", "ls") == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("module", "flags"),
    [("mq_mover", ("--source=delay", "--destination=queues")), ("mq_reaper", ("--source=remove",))],
)
def test_a_process_whose_file_system_does_not_answer_stops_as_asked(
    tmp_path: Path, module: str, flags: tuple[str, ...], number: signal.Signals
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        hung = subprocess.Popen(
            [sys.executable, "-c", HUNG, module, *flags], stderr=stderr, cwd=tmp_path
        )
    try:
        wait_until(lambda: "waits\n" in log.read_text(), 100)

        hung.send_signal(number)

        assert hung.wait(15) == 0
    finally:
        hung.kill()
        hung.wait()
