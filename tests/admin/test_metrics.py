"""`/metrics` of a server, a mover and a reaper: what is counted is what there is."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mq import __version__
from mq.config import MAX_METRIC_QUEUES
from mq.store.index.ready_queues import DRAIN_SECONDS
from tests.support.messages import names_in
from tests.support.processes import PreloadedProcess, Process, Server, wait_until
from tests.support.scraping import Scrape, scrape
from tests.support.sources import read_table
from tests.support.wire import Wire, let_lease_end

StartServer = Callable[..., Server]
StartProcess = Callable[..., tuple[Process, int]]


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server("--admin=127.0.0.1:0", "--max-receives=2")


@pytest.fixture
def start_process(tmp_path: Path, processes: list[Process]) -> StartProcess:
    """`start_process("mq_mover", ...)` starts it with metrics; returns where they are, too."""

    def start(module: str, *flags: str) -> tuple[Process, int]:
        log = tmp_path / f"{module}.log"
        process = PreloadedProcess(module, *flags, "--metrics-port=0", log=log)
        processes.append(process)
        port = re.compile(r"event=metrics url=http://127\.0\.0\.1:(\d+)/metrics")
        wait_until(lambda: port.search(process.log()), 100)
        match = port.search(process.log())
        assert match is not None
        return process, int(match[1])

    return start


def mover_flags(root: Path) -> tuple[str, str, str]:
    folders = f"--source={root / 'delay'}", f"--destination={root / 'queues'}"
    return *folders, "--max-receives=2"


def ports_of(server: Server, start_process: StartProcess) -> list[int]:
    """Return the ports of the server, and of a mover and a reaper beside it."""
    return [
        server.admin_port,
        start_process("mq_mover", *mover_flags(server.root))[1],
        start_process("mq_reaper", f"--source={server.root / 'remove'}")[1],
    ]


def is_nothing_due_soon(delay: Path) -> bool:
    """Return whether what was delayed for a tenth of a second is gone: at first it is not late."""
    try:
        return all(each.stat().st_mtime > time.time() + 100 for each in delay.iterdir())
    except FileNotFoundError:
        return False  # The mover is just moving it.


def assert_as_in_the_folders(found: Scrape, root: Path) -> None:
    queues = {path.name: len(names_in(path)) for path in (root / "queues").iterdir()}
    delayed = Counter(name.partition(":")[0] for name in names_in(root / "delay"))
    for queue, ready in queues.items():
        assert found.value("mq_queue_messages", queue=queue, state="ready") == ready
        hidden = [
            found.value("mq_queue_messages", queue=queue, state=state)
            for state in ("leased", "delayed")
        ]
        assert sum(hidden) == delayed[queue]
        age = found.value("mq_queue_oldest_message_age_seconds", queue=queue)
        assert (age > 0) == (ready > 0)
    for folder in ("new", "delay", "remove", "corrupt"):
        names = names_in(root / folder) if (root / folder).exists() else []
        assert found.value("mq_folder_files", folder=folder) == len(names)


def run_at_random(wire: Wire) -> Counter[str]:
    """Let clients do what they do; returns how often they did."""
    chance = random.Random(os.environ.get("SEED", "mq"))
    for queue in ("a", "b"):
        wire.request("PUT", f"/{queue}")
    done: Counter[str] = Counter()
    leased: list[tuple[str, str, str]] = []
    for _ in range(300):
        queue = chance.choice("ab")
        match chance.choice(
            ["publish", "publish", "batch", "delay", "receive", "release", "remove", "remove two"]
        ):
            case "publish":
                wire.publish(queue, b"x" * chance.choice([0, 10, 600_000]))
                done["published"] += 1
            case "batch":
                lines = b'{"body": "one"}\n{"body": "two", "delay": 1000}\n{"body": "three"}'
                target = f"/{queue}/messages?batch"
                answer = wire.request("POST", target, lines, content_type="application/x-ndjson")
                assert answer.status == 201
                done["published"] += 3
                done["batches"] += 1
            case "delay":
                target = f"/{queue}/messages?delay={chance.choice(['0.1', '1000'])}"
                assert wire.request("POST", target, b"later").status == 201
                done["published"] += 1
            case "receive":
                answer = wire.request("GET", f"/{queue}/messages?visibility=1000")
                if answer.status == 200:
                    done["received"] += 1
                    headers = answer.headers
                    leased.append((queue, headers["x-message-id"], headers["etag"]))
            case "release" if leased:
                queue, each, lease = leased.pop(chance.randrange(len(leased)))
                target = f"/{queue}/messages?id={each}&visibility=0"
                assert wire.request("GET", target, if_match=lease).status < 300
                done["given back"] += 1
            case "remove" if leased:
                queue, each, lease = leased.pop(chance.randrange(len(leased)))
                assert wire.remove(queue, each, if_match=lease).status == 202
                assert wire.remove(queue, each).status == 202
                done["removed"] += 1
            case "remove two" if len(leased) > 1:
                several = [each for each in leased if each[0] == leased[0][0]][:2]
                leased = [each for each in leased if each not in several]
                ids = ",".join(each for _, each, _ in several)
                assert wire.remove(several[0][0], ids).status == 202
                done["removed"] += len(several)
    return done


def test_counters_and_gauges_agree_with_the_folders_after_a_random_run(
    server: Server, connect: Callable[[Server], Wire], start_process: StartProcess
) -> None:
    """Every message is in one place, and every move was counted once."""
    done = run_at_random(connect(server))

    found = scrape(server.admin_port)
    assert_as_in_the_folders(found, server.root)
    for name in ("published", "received", "removed"):
        assert found.value(f"mq_messages_{name}_total") == done[name], name
    given_back = [
        found.value(f"mq_messages_{name}_total") for name in ("redelivered", "dead_lettered")
    ]
    assert sum(given_back) == done["given back"]
    assert found.value("mq_messages_corrupt_total") == 0
    requests = found.by("mq_http_request_duration_seconds_count", "method")
    assert requests["POST"] == done["published"] - 2 * done["batches"]
    wait_until(lambda: scrape(server.admin_port).value("mq_mover_lag_seconds") > 0)

    _, mover_port = start_process("mq_mover", *mover_flags(server.root))
    wait_until(lambda: scrape(mover_port).value("mq_mover_lag_seconds") == 0)
    wait_until(lambda: scrape(server.admin_port).value("mq_mover_lag_seconds") == 0)
    wait_until(lambda: is_nothing_due_soon(server.root / "delay"))
    moved = scrape(mover_port)

    time.sleep(2 * DRAIN_SECONDS)  # Events may wait as long.
    assert_as_in_the_folders(scrape(server.admin_port), server.root)
    in_root = sum(len(files) for _, _, files in os.walk(server.root / "queues"))
    in_root += len(names_in(server.root / "delay"))
    assert in_root == done["published"] - done["removed"]
    # Only delayed messages fell due.
    assert moved.value("mq_messages_redelivered_total") == 0
    assert moved.value("mq_messages_dead_lettered_total") == 0


def test_mover_counts_what_it_gives_back_and_what_is_dead(
    server: Server, connect: Callable[[Server], Wire],
    start_process: StartProcess,
) -> None:  # fmt: skip
    wire = connect(server)
    wire.request("PUT", "/q")
    _, port = start_process("mq_mover", *mover_flags(server.root))
    message_id = wire.publish("q")
    for expected in ((1, 0), (1, 1)):
        let_lease_end(wire, "q", message_id)
        names = ("mq_messages_redelivered_total", "mq_messages_dead_lettered_total")
        wait_until(lambda: tuple(map(scrape(port).value, names)) == expected)

    found = scrape(server.admin_port)

    assert found.value("mq_queue_messages", queue="q.dead", state="ready") == 1
    assert scrape(port).value("mq_build_info", version=__version__) == 1


def test_reaper_counts_what_it_unlinks_and_keeps(
    server: Server, connect: Callable[[Server], Wire],
    start_process: StartProcess,
) -> None:  # fmt: skip
    wire = connect(server)
    wire.request("PUT", "/q")
    for _ in range(3):
        assert wire.remove("q", wire.publish("q")).status == 202

    _, port = start_process("mq_reaper", f"--source={server.root / 'remove'}")

    wait_until(lambda: scrape(port).value("mq_messages_reaped_total") == 3)
    assert os.listdir(server.root / "remove") == []
    assert scrape(port).value("mq_reaper_kept_files") == 0


def test_damaged_messages_are_counted(server: Server, connect: Callable[[Server], Wire]) -> None:
    wire = connect(server)
    wire.request("PUT", "/q")
    for body in (b"a" * 10, b"b" * 600_000):
        message_id = wire.publish("q", body)
        (server.root / "queues" / "q" / message_id).write_bytes(b"x" * len(body))

    assert wire.receive("q").status == 204

    found = scrape(server.admin_port)
    assert found.value("mq_messages_corrupt_total") == 2
    assert found.value("mq_folder_files", folder="corrupt") == 2


def test_whatever_clients_send_the_number_of_series_is_bounded(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    for number in range(MAX_METRIC_QUEUES + 20):
        (server.root / "queues" / f"q{number:04}").mkdir()
    for number in (MAX_METRIC_QUEUES - 1, MAX_METRIC_QUEUES, MAX_METRIC_QUEUES + 5):
        wire.publish(f"q{number:04}")
    for number, method in enumerate(("PATCH", "OPTIONS", "TRACE", "PROPFIND", "LINK", "SEARCH")):
        wire.request(method, f"/path{number}/x/y/z")
        wire.request(method, f"/queue{number}")
        wire.request("GET", f"/queue{number}/messages/{number}/{number}")

    found = scrape(server.admin_port)

    by_queue = found.by("mq_queue_messages", "queue")
    assert len(by_queue) == MAX_METRIC_QUEUES + 1
    assert by_queue[f"q{MAX_METRIC_QUEUES - 1:04}"] == 1
    assert by_queue["_other"] == 2
    assert set(found.by("mq_http_request_duration_seconds_count", "method")) <= {"POST", "other"}
    assert set(found.by("mq_http_request_duration_seconds_count", "route")) <= {
        "/{queue}", "/{queue}/messages", "other",
    }  # fmt: skip


def test_an_accept_that_cannot_be_read_is_passed_over(
    server: Server, start_process: StartProcess
) -> None:
    for port in ports_of(server, start_process):
        for kind in ("text/plain", "application/openmetrics-text"):
            assert scrape(port, Accept=f'{kind}; version="0.0.4"').by("mq_build_info", "version")
            assert scrape(port, Accept=f"{kind};version=1.x").by("mq_build_info", "version")
    assert "Traceback" not in server.log()


def test_promtool_finds_nothing_to_say(
    server: Server, connect: Callable[[Server], Wire],
    start_process: StartProcess,
) -> None:  # fmt: skip
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing: install the package prometheus")
    wire = connect(server)
    wire.request("PUT", "/q")
    wire.publish("q")
    ports = ports_of(server, start_process)

    for port in ports:
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=scrape(port).text, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "")


def test_every_metric_is_documented_and_every_documented_one_is_there(
    server: Server, connect: Callable[[Server], Wire],
    start_process: StartProcess,
) -> None:  # fmt: skip
    wire = connect(server)
    wire.request("PUT", "/q")
    ports = ports_of(server, start_process)
    told = {
        name
        for port in ports
        for name in re.findall(r"^# TYPE (mq_\w+)", scrape(port).text, re.MULTILINE)
    }
    listed = {
        name
        for row in read_table("docs/operations.md", "## Metrics")
        for name in re.findall(r"\bmq_[a-z_]+", row[0])
    }

    assert told == listed
