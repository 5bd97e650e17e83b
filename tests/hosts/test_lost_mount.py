"""A root whose file system does not answer, or is gone, when a process starts on it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from mq.errors import CommandFailed, ExitCode
from mq.spool.trouble import require_at
from tests.hosts.caching import Mount
from tests.support.processes import IMPATIENT, Process, Server, wait_until
from tests.support.refusals import start
from tests.support.wire import Wire, WireAnswer, assert_problem


def _ask(server: Server, path: str) -> WireAnswer:
    with closing(Wire(server.admin_port)) as wire:
        return wire.request("GET", path)


def test_server_on_a_root_that_does_not_answer_listens_and_can_be_stopped(
    mount: Mount, tmp_path: Path, processes: list[Process]
) -> None:
    mounts = mount(0)
    mounts.hang()
    flags = (f"--root={mounts.mounts[0] / 'root'}", "--port=0", "--admin=127.0.0.1:0")
    server = Process("mq", *flags, log=tmp_path / "log")
    processes.append(server)
    wait_until(lambda: "event=admin" in server.log(), 100)

    assert server.stop() == ExitCode.OK

    assert "stopped before the root was open" in server.log()


@pytest.mark.parametrize("module", ["mq", "mq_mover", "mq_reaper"])
def test_what_starts_on_a_root_that_is_gone_names_it(mount: Mount, module: str) -> None:
    """A mount that has lost its daemon answers each look with an error."""
    mounts = mount(0)
    mounts.break_off()
    root = mounts.mounts[0] / "root"
    folders = {
        "mq": (f"--root={root}", "--port=0"),
        "mq_mover": (f"--source={root}/delay", f"--destination={root}/queues"),
        "mq_reaper": (f"--source={root}/remove",),
    }

    refusal = start(module, *folders[module])

    assert refusal.exit_code == ExitCode.ROOT
    assert str(mounts.mounts[0]) in refusal.line
    assert "not connected" in refusal.line


def test_server_whose_mount_was_lost_is_to_be_started_again_once_it_is_mounted_again(
    mount: Mount, tmp_path: Path, processes: list[Process]
) -> None:
    """What it has open never works again."""
    mounts = mount(0)
    root = mounts.mounts[0] / "root"
    server = Server(root, "--admin=127.0.0.1:0", log=tmp_path / "log", module=IMPATIENT)
    processes.append(server)
    mounts.break_off()
    wait_until(lambda: "root in trouble" in server.log(), 100)
    assert _ask(server, "/livez").status == 200

    mounts.mount_again()

    wait_until(lambda: _ask(server, "/livez").status == 503, 100)
    assert_problem(_ask(server, "/readyz"), 503, "unavailable", "mounted again")


def test_mover_and_reaper_whose_mount_was_lost_end_once_it_is_mounted_again(mount: Mount) -> None:
    mounts = mount(0, 0.0)
    folder = mounts.mounts[0]
    fd = os.open(folder, os.O_RDONLY)
    mounts.break_off()
    with pytest.raises(OSError, match="not connected"):
        require_at(fd, folder)

    mounts.mount_again()

    with pytest.raises(CommandFailed, match="mounted again"):
        require_at(fd, folder)
    os.close(fd)
