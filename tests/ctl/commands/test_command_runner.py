"""What `mqctl exec` does where the machine has no room for one more command."""

from __future__ import annotations

import errno
import subprocess

import pytest

from mq.client import Client
from mq.ctl.commands.command_runner import CommandRunner
from mq.names import QueueName
from tests.support.faces import counts, new_queue
from tests.support.faults import raising
from tests.support.processes import Server


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_a_message_does_not_die_because_the_machine_is_short(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    code: int,
) -> None:
    with Client(server.url) as mq:
        orders, dead = new_queue(mq), new_queue(mq)
        orders.publish("one")
        runner = CommandRunner(["true"])
        runner.bury_after(1, {QueueName(orders.name): QueueName(dead.name)})
        monkeypatch.setattr(subprocess, "Popen", raising(code))

        orders.worker(runner.handle, max=1).run(signals=())

        assert runner.counts() == {"done": 0, "failed": 0, "given_back": 1, "dead": 0}
        assert "true cannot be started: " in capfd.readouterr().err
        assert counts(dead) == (0, 0, 0)
