"""A root whose file system does not answer, or is gone, when a process starts on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.hosts.caching import Mount
from tests.support.processes import Process, wait_until
from tests.support.refusals import start


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
