"""The systemd units: checked as they are, and started for real in a container that boots."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.images import copy_tracked_files
from tests.deploy.running import require, run
from tests.support.processes import wait_until
from tests.support.sources import REPOSITORY

pytestmark = pytest.mark.timeout(600)
"""Debian is fetched, installed and booted before the first test."""

UNITS = REPOSITORY / "deploy" / "systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
URL = "http://127.0.0.1:8080"
MOST_EXPOSURE = 1.5

DOCUMENT = (REPOSITORY / "docs" / "deploy.md").read_text()
INSTALL = DOCUMENT.partition("<!-- systemd -->\n```sh\n")[2].partition("```")[0]
ENABLE_GATEWAY = "systemctl enable --now mq-sqs.service"
assert ENABLE_GATEWAY in DOCUMENT
FROM_WHEELS = {
    "install --require-hashes -r requirements-build.lock":
        "install --quiet --no-index --find-links /wheels --require-hashes",
    "install --no-deps --no-build-isolation .":
        "install --quiet --no-index --find-links /wheels --no-deps mq-server",
}  # fmt: skip
"""In place of an index and of the folder: the machine has no network."""

FAST_WATCHDOG = "[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n"


class Machine:
    """A booted container; its processes are reached through their namespaces."""

    def __init__(self, tree: Path, log: Path) -> None:
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
                 "--private-network", "--directory", str(tree)],
                env=os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self._log = log
        try:
            wait_until(self._has_booted, 90)
        except BaseException:
            self.stop()
            raise

    @property
    def init(self) -> str:
        """The container's first process. It is looked up each time, because another one comes and
        goes before it."""
        assert self.process.poll() is None, self._log.read_text()
        pid = self.process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()

    def _has_booted(self) -> bool:
        return self.run("systemctl", "is-system-running", check=False).strip() == "running"

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(["nsenter", "--target", self.init, "--all", *command],
                              check=False, capture_output=True, text=True, timeout=120)  # fmt: skip
        assert done.returncode == 0 or not check, (command, done.stdout, done.stderr)
        return done.stdout

    def curl(self, *arguments: str) -> str:
        """Ask from within the container's network. Returns status and body."""
        return run("nsenter", "--target", self.init, "--net", "curl", "-sS", "--max-time", "30",
                   "-w", " %{http_code}", *arguments)  # fmt: skip

    def signal(self, name: str) -> None:
        """Send a signal to the server's process."""
        self.run("systemctl", "kill", "--kill-who=main", f"--signal={name}", "mq.service")

    def show(self, unit: str, field: str) -> str:
        return self.run("systemctl", "show", "--property", field, "--value", unit).strip()

    def stop(self) -> None:
        """Nobody needs it any more: its first process ends, and with it all others."""
        os.kill(int(self.init), signal.SIGKILL)
        self.process.wait(60)


@pytest.fixture(scope="module")
def machine(
    debian: Path, wheels: Path, scratch: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """With MQ installed as the document says, from wheels."""
    require("systemd-nspawn", "nsenter", "curl", "git")
    tree = scratch / "machine"
    run("cp", "-a", "--reflink=auto", debian, tree)
    shutil.copytree(wheels, tree / "wheels")
    copy_tracked_files(tree / "clone")
    drop_in = tree / "etc" / "systemd" / "system" / "mq.service.d" / "test.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(FAST_WATCHDOG)
    machine = Machine(tree, tmp_path_factory.mktemp("log") / "boot.log")
    try:
        install = INSTALL
        for words, others in FROM_WHEELS.items():
            assert words in install
            install = install.replace(words, others)
        machine.run("sh", "-ec", f"cd /clone\n{install}")
        machine.run("sh", "-ec", ENABLE_GATEWAY)
        yield machine
    finally:
        machine.stop()


def _is_active(machine: Machine, unit: str) -> bool:
    return machine.show(unit, "ActiveState") == "active"


def _main_pid(machine: Machine) -> int:
    return int(machine.show("mq.service", "MainPID"))


# As they are


def test_units_are_as_systemd_wants_them(tmp_path: Path) -> None:
    require("systemd-analyze")
    for path in UNITS.glob("mq*.s*"):
        # It asks whether each command can be executed, and MQ is not installed on this machine.
        text = re.sub("/opt/mq/bin/[a-z-]+", "/bin/true", path.read_text())
        (tmp_path / path.name).write_text(text)

    done = subprocess.run(["systemd-analyze", "verify", *map(str, tmp_path.iterdir())],
                          check=False, capture_output=True, text=True)  # fmt: skip

    ours = [line for line in done.stderr.splitlines() if "mq" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.parametrize("service", SERVICES)
def test_services_have_few_rights(service: str) -> None:
    require("systemd-analyze")
    printed = run("systemd-analyze", "security", "--offline=true", UNITS / service)

    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", printed)

    assert found is not None
    assert float(found[1]) <= MOST_EXPOSURE


@pytest.mark.parametrize("service", SERVICES)
def test_services_take_no_more_than_their_share(service: str) -> None:
    """The limits are of the machine's memory and processes, whatever clients send."""
    text = (UNITS / service).read_text()

    assert re.search(r"^MemoryMax=[0-9]+[MG]$", text, re.MULTILINE)
    assert re.search(r"^TasksMax=[0-9]+$", text, re.MULTILINE)


def test_the_gateway_starts_no_server_that_nobody_has_asked_for() -> None:
    """Without tokens, anyone on the machine could use that."""
    started, left = set[str](), {"mq-sqs.service"}
    while left:
        unit = left.pop()
        started.add(unit)
        text = (UNITS / unit).read_text()
        for names in re.findall(r"^(?:Wants|Requires|BindsTo)=(.*)$", text, re.MULTILINE):
            left |= set(names.split()) - started

    assert started == {"mq-sqs.service", "mq-mover.service", "mq-reaper.service"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_variable_sets_every_flag_but_the_folders(service: str) -> None:
    """A flag in `ExecStart=` would override the variable that `systemctl edit` adds."""
    [command] = re.findall(r"^ExecStart=(.*)$", (UNITS / service).read_text(), re.MULTILINE)

    assert set(re.findall(r"--[a-z-]+", command)) <= {"--root", "--source", "--destination"}


# In a machine that boots


def test_message_survives_kill_and_the_server_comes_back(machine: Machine) -> None:
    wait_until(lambda: all(_is_active(machine, unit) for unit in SERVICES), 60)
    assert machine.curl("-X", "PUT", f"{URL}/orders").endswith("201")
    assert machine.curl("-d", "two coffees", f"{URL}/orders/messages").endswith("201")
    killed = _main_pid(machine)

    machine.signal("KILL")

    assert machine.curl(f"{URL}/orders/messages") == "two coffees 200"
    assert _main_pid(machine) not in (0, killed)


def test_mover_and_reaper_work_under_their_limits(machine: Machine) -> None:
    machine.curl("-X", "PUT", f"{URL}/short")
    machine.curl("-d", "again", f"{URL}/short/messages")
    machine.run("systemctl", "restart", "mq-mover", "mq-reaper")

    delay, queue = "/var/lib/mq/delay", "/var/lib/mq/queues/short"
    assert machine.curl(f"{URL}/short/messages") == "again 200"
    machine.run("sh", "-c", f"touch -d '+1 second' {delay}/short:*")

    wait_until(lambda: machine.run("ls", queue) != "", 20)
    assert "traceback" not in machine.run("journalctl", "--no-pager", check=False).lower()


def test_the_gateway_for_sqs_comes_back_and_shares_the_queues(machine: Machine) -> None:
    wait_until(lambda: _is_active(machine, "mq-sqs.service"), 60)
    machine.curl("-X", "PUT", f"{URL}/shared")
    gateway = "http://127.0.0.1:9324"
    sent = f"{gateway}/0/shared?Action=SendMessage&MessageBody=by%20SQS"
    assert machine.curl(sent).endswith("200")

    machine.run("systemctl", "kill", "--signal=KILL", "mq-sqs.service")

    assert machine.curl(f"{URL}/shared/messages") == "by SQS 200"
    wait_until(lambda: machine.show("mq-sqs.service", "NRestarts") != "0", 100)
    wait_until(lambda: _is_active(machine, "mq-sqs.service"), 100)
    assert machine.curl(f"{gateway}/?Action=ListQueues").endswith("200")
    assert machine.curl("http://127.0.0.1:9325/readyz") == "ready\n 200"


def test_watchdog_restarts_a_server_that_is_stopped(machine: Machine) -> None:
    wait_until(lambda: _is_active(machine, "mq.service"), 100)
    stopped = _main_pid(machine)

    machine.signal("STOP")

    wait_until(lambda: _main_pid(machine) not in (0, stopped), 60)
    assert machine.curl("-X", "PUT", f"{URL}/after").endswith("201")
    assert "watchdog" in machine.run("journalctl", "--no-pager", "-u", "mq.service").lower()


def test_restart_behind_the_socket_loses_no_request(machine: Machine) -> None:
    machine.curl("-X", "PUT", f"{URL}/busy")
    answers: list[str] = []
    done = threading.Event()

    def publish() -> None:
        while not done.is_set():
            answers.append(machine.curl("-d", "body", f"{URL}/busy/messages")[-3:])

    publisher = threading.Thread(target=publish)
    publisher.start()
    before = _main_pid(machine)
    for _ in range(3):
        seen = len(answers)
        machine.run("systemctl", "restart", "mq.service")
        wait_until(lambda: len(answers) > seen + 3, 100)
    done.set()
    publisher.join(60)

    assert _main_pid(machine) != before
    assert set(answers) == {"201"}


def test_reload_keeps_the_process(machine: Machine) -> None:
    wait_until(lambda: _is_active(machine, "mq.service"), 100)
    before = _main_pid(machine)

    machine.run("systemctl", "reload", "mq.service")

    assert _main_pid(machine) == before
    assert machine.curl("-X", "PUT", f"{URL}/reloaded").endswith("201")


def test_tokens_come_as_a_credential_that_a_restart_renews(machine: Machine) -> None:
    given = "[Service]\nLoadCredential=tokens:/root/tokens\nEnvironment=MQ_TOKEN_FILE=%d/tokens\n"
    drop_in = "/etc/systemd/system/mq.service.d/tokens.conf"
    machine.run("sh", "-ec", f"echo '{given}' >{drop_in}; systemctl daemon-reload")

    for token in ("Zm9vIGJhciBiYXogcXV1eA1", "Zm9vIGJhciBiYXogcXV1eA2"):
        write = f"umask 077; echo 'monitor read * {token}' >/root/tokens"
        machine.run("sh", "-ec", f"{write}; systemctl restart mq.service")
        asked = machine.curl("-H", f"Authorization: Bearer {token}", f"{URL}/unknown")
        assert asked.endswith("404"), asked
    machine.run("sh", "-ec", f"rm {drop_in}; systemctl daemon-reload; systemctl restart mq.service")


def test_all_units_stop_in_time_and_without_a_failure(machine: Machine) -> None:
    """Whichever systemd has to kill, after TimeoutStopSec, has `timeout` for its result."""
    machine.run("systemctl", "stop", "mq.socket", "mq.service", "mq-mover", "mq-reaper",
                "mq-sqs")  # fmt: skip

    assert [machine.show(unit, "Result") for unit in SERVICES] == ["success"] * len(SERVICES)
