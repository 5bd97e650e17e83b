"""The programs and files of `examples`, run as they are against a real server.

What is Celery's is run by `tests/kombu`, what is Spark's by `tests/spark`; what belongs to a
recipe of docs/recipes.md by `test_recipes.py`.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.client import Client, Queue
from tests.support.breaking import Breaking
from tests.support.examples import EXAMPLES, is_empty, run_example
from tests.support.parting import Parting
from tests.support.processes import wait_until
from tests.support.sources import REPOSITORY

ELSEWHERE = {"archive.py", "celery_orders.py", "pipeline.py"}
PROGRAMS = Path(__file__).parent / "programs"
PRINTED_BY_ALL = """\
received two coffees 1
again two coffees 2
empty
404 urn:mq:problem:queue-not-found
412 urn:mq:problem:lease-mismatch
"""
"""What each of the programs prints, with the client of its language."""

RENEWED_FIRST = "renewed\nback in a second\n"
"""What is printed if a renewal is under way when the work fails: the message is back early only if
the renewal does not come last."""

AWAY = b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>"
MADE = b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

PAGE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>"
HALF = b"HTTP/1.1 200 OK\r\nX-Message-Id: one\r\nConnection: close\r\n\r\ntwo cof"
IN_AN_HOUR = AWAY.replace(b"\r\n\r\n", b"\r\nRetry-After: 3600\r\n\r\n")
IN_A_MINUTE = IN_AN_HOUR.replace(b"3600", b"60")

BEHIND_PROXIES = """\
200
200
502
ended
"""
"""What is printed behind a proxy that answers with a page, and with half of a message, and behind
one that asks to come again later."""

OVER_WITH_THE_LEASE = "the lease is over\n"
"""What is printed if a renewal hangs: the handler hears of it when the lease is over."""

LONGEST_CLIENT_LINES = 150


@pytest.fixture
def proxy() -> Iterator[Parting]:
    """A proxy whose server is started again just then: it answers 502 at first."""
    with closing(Parting(AWAY, then=MADE)) as opened:
        yield opened


def need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing: install the package {package}")


def run_behind_proxies(environment: dict[str, str], command: list[str], folder: Path) -> str:
    """Return what the programs `page` and `busy` print; `command` has NAME for their names."""
    printed = ""
    for name, answers in (("page", [PAGE, HALF]), ("busy", [IN_AN_HOUR, IN_A_MINUTE])):
        words = [word.replace("NAME", name) for word in command]
        with closing(Breaking(answers)) as proxy:
            printed += run_example(environment | {"MQ_URL": proxy.url}, *words, folder=folder)
    return printed


def brews(
    queue: Queue, environment: dict[str, str], output: Path, command: list[str], status: int = 0
) -> None:
    """A worker handles a message, ends at SIGTERM, and leaves nothing behind."""
    queue.publish("two coffees")
    with output.open("wb") as written:
        worker = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=written, stderr=written
        )
    try:
        wait_until(lambda: "brewing two coffees" in output.read_text() or worker.poll(), 60)
        wait_until(lambda: is_empty(queue) or worker.poll(), 100)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == status, output.read_text()
    finally:
        worker.kill()
        worker.wait()
    assert "brewing two coffees" in output.read_text()
    assert is_empty(queue)


def test_curl_is_all_it_takes(orders: Queue, environment: dict[str, str]) -> None:
    need("curl", "curl")

    printed = [run_example(environment, "sh", "examples/curl.sh") for _ in range(2)]

    expected = r"received order-\S+: two coffees\nremoved\n"
    assert all(re.fullmatch(expected, each) for each in printed)
    assert is_empty(orders)


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "examples/worker.py"],
        [sys.executable, "examples/worker_asyncio.py"],
        ["sh", "examples/worker.sh"],
    ],
    ids=lambda command: Path(command[-1]).name,
)
def test_a_worker_brews_and_stops(
    orders: Queue, environment: dict[str, str], tmp_path: Path, command: list[str]
) -> None:
    brews(orders, environment, tmp_path / "output", command)


def test_a_worker_in_javascript(orders: Queue, environment: dict[str, str], tmp_path: Path) -> None:
    need("node", "nodejs")

    brews(orders, environment, tmp_path / "output", ["node", "examples/javascript/worker.mjs"])


def test_what_a_client_in_javascript_does(
    orders: Queue, environment: dict[str, str], tmp_path: Path, proxy: Parting
) -> None:
    need("node", "nodejs")
    behind = environment | {"MQ_URL": proxy.url}
    for name in ("all", "renewal", "listeners", "away", "hanging", "page", "busy"):
        shutil.copy(PROGRAMS / f"{name}.mjs", tmp_path)
    shutil.copy(EXAMPLES / "javascript/mq.mjs", tmp_path)

    assert run_example(environment, "node", "all.mjs", folder=tmp_path) == PRINTED_BY_ALL
    assert is_empty(orders)
    assert run_example(environment, "node", "renewal.mjs", folder=tmp_path) == RENEWED_FIRST
    assert run_example(environment, "node", "listeners.mjs", folder=tmp_path) == "0\n"
    assert run_example(behind, "node", "away.mjs", folder=tmp_path) == "made\n"
    assert run_example(environment, "node", "hanging.mjs", folder=tmp_path) == OVER_WITH_THE_LEASE
    assert run_behind_proxies(environment, ["node", "NAME.mjs"], tmp_path) == BEHIND_PROXIES


def test_a_worker_in_go(
    orders: Queue, environment: dict[str, str], tmp_path: Path, proxy: Parting
) -> None:
    """The rest of its client is tested too, from the same cache of compiled packages."""
    need("go", "golang-go")
    go = environment | {
        "GOCACHE": str(tmp_path / "cache"),
        "GOPATH": str(tmp_path / "go"),
        "GOTOOLCHAIN": "local",
    }
    for name in ("go.mod", "mq.go", "main.go"):
        shutil.copy(EXAMPLES / "go" / name, tmp_path)
    run_example(go, "go", "build", "-o", "worker", ".", folder=tmp_path)
    for name in ("all", "renewal", "away", "hanging", "page", "busy"):
        shutil.copy(PROGRAMS / f"{name}.go", tmp_path / "main.go")
        run_example(go, "go", "build", "-o", name, ".", folder=tmp_path)

    brews(orders, environment, tmp_path / "output", [str(tmp_path / "worker")])
    assert run_example(environment, str(tmp_path / "all")) == PRINTED_BY_ALL
    assert is_empty(orders)
    assert run_example(environment, str(tmp_path / "renewal")) == RENEWED_FIRST
    behind = environment | {"MQ_URL": proxy.url}
    assert run_example(behind, str(tmp_path / "away")) == "made\n"
    refused = "404 there is no queue (urn:mq:problem:queue-not-found)\n"
    assert run_example(environment, str(tmp_path / "hanging")) == OVER_WITH_THE_LEASE + refused
    assert run_behind_proxies(environment, [f"{tmp_path}/NAME"], tmp_path) == BEHIND_PROXIES


@pytest.mark.parametrize("name", ["go/mq.go", "javascript/mq.mjs"])
def test_a_client_written_by_hand_is_short(name: str) -> None:
    lines = (EXAMPLES / name).read_text().splitlines()

    assert len(lines) <= LONGEST_CLIENT_LINES
    assert max(map(len, lines)) <= 160


def test_a_timetable_sends_each_message_once(orders: Queue, environment: dict[str, str]) -> None:
    run_example(environment, "mqctl", "create", "reports")
    run_example(environment, "mqctl", "create", "reports.dead")
    commands = [
        line.split(maxsplit=5)[5].replace(r"\%", "%")
        for line in (EXAMPLES / "crontab").read_text().splitlines()
        if re.match(r"[\d*]", line)
    ]
    nightly, hourly, work_off, watch = commands

    first, second = (
        run_example(environment, "sh", "-c", nightly),
        run_example(environment, "sh", "-c", nightly),
    )
    run_example(environment, "sh", "-c", hourly)
    nothing_failed = subprocess.run(["sh", "-c", watch], check=False, env=environment)

    assert first == second
    with Client(environment["MQ_URL"]) as mq:
        assert mq.queue("reports").counts()[1:4] == (1, 0, 1)
        worked_off = run_example(environment, "sh", "-c", work_off)
        assert mq.queue("reports").counts()[1:4] == (0, 0, 1)
    assert worked_off.endswith("1 done, 0 failed, 0 given back, 0 dead\n")
    assert nothing_failed.returncode == 3


def test_every_example_is_listed_and_run_somewhere() -> None:
    listed = set(re.findall(r"\]\((\w[\w./]*)\)", (EXAMPLES / "README.md").read_text()))
    here = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))

    names = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"}
    assert names == listed
    assert {name for name in names - ELSEWHERE if name.partition(".")[0] not in here} == set()
