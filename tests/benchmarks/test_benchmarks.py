"""All parts of the benchmarks run. How fast they find anything does not matter here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import Server, wait_until
from tests.support.sources import REPOSITORY

FOLDER = REPOSITORY / "benchmarks"
PHASES = {"publish", "receive", "remove"}
PEERS = {
    "beanstalkd": "beanstalkd",
    "Redis": "redis-server",
    "PostgreSQL": "postgresql",
    "RabbitMQ": "rabbitmq-server",
}
FEW = ["--rounds=1", "--messages=12", "--connections=1,3", "--batch-connections=1,2",
       "--many=2,3"]  # fmt: skip


def run(script: str, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    done = attempt(script, *words, **variables)
    assert done.returncode == 0, done.stderr
    return done


def attempt(script: str, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, FOLDER / script, *words]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | variables
    )


def rows_of(file: Path) -> dict[tuple[str, str, int], set[str]]:
    """The phases of each part, server and number of connections; all have a rate."""
    found: dict[tuple[str, str, int], set[str]] = {}
    for row in json.loads(file.read_text())["rows"]:
        assert row["per_second"] > 0
        found.setdefault((row["part"], row["server"], row["width"]), set()).add(row["phase"])
    return found


def test_each_part_of_the_benchmark_is_measured_and_shown(tmp_path: Path, server: Server) -> None:
    file = tmp_path / "found.json"
    other = f"other=http://127.0.0.1:{server.port}"

    done = run("bench.py", *FEW, "--parts=ceilings,requests,batches,many", f"--url={other}",
               f"--json={file}", tmp_path)  # fmt: skip

    rows = rows_of(file)
    for connections in (1, 3):
        assert rows["requests", "mq", connections] == PHASES | {"cycle"}
        assert rows["peers", "other", connections] == PHASES | {"cycle"}
        assert rows["idle", "aiohttp", connections] == PHASES
        assert rows["idle", "bare", connections] == PHASES
    assert rows["batches", "mq", 1] == rows["batches", "mq", 2] == PHASES
    assert rows["many", "mq", 2] == rows["many", "mq", 3] == {"cycle", "beside"}
    if shutil.which("cc"):
        assert rows["files", "single", 512] == rows["files", "batch", 512] == PHASES
        assert rows["files", "file", 1] == {"file"}
    assert run("report.py", file).stdout == done.stdout
    assert run("plot.py", file).stdout.startswith("<svg ")


def test_the_benchmark_makes_its_file_systems_and_takes_them_away(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not (shutil.which("mkfs.ext4") and shutil.which("mkfs.xfs")):
        pytest.skip("needs root, and the packages e2fsprogs and xfsprogs")
    file = tmp_path / "found.json"

    run("bench.py", *FEW, "--parts=requests", f"--json={file}", TMPDIR=str(tmp_path))

    places = {row["place"] for row in json.loads(file.read_text())["rows"]}
    assert {"ext4", "xfs"} <= places
    assert list(tmp_path.iterdir()) == [file]
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_that_is_installed_is_measured_and_stopped(name: str, tmp_path: Path) -> None:
    file, roots = tmp_path / "found.json", tmp_path / "roots"
    roots.mkdir()
    for folder in (*tmp_path.parents, tmp_path, roots):
        if folder.is_relative_to(Path(tmp_path.parts[0], tmp_path.parts[1])):
            # PostgreSQL runs as another user, and goes through them.
            folder.chmod(folder.stat().st_mode | 0o011)

    done = attempt("bench.py", *FEW, "--parts=peers", f"--peers={name}", f"--json={file}", roots)

    if f"not compared: {PEERS[name]}" in done.stderr:
        assert "nothing of what was asked for is here" in done.stderr
        pytest.skip(f"install the package {PEERS[name]}")
    assert done.returncode == 0, done.stderr
    assert {rows for (_, server, _), rows in rows_of(file).items() if server != name} == set()
    assert all(phases == PHASES | {"cycle"} for phases in rows_of(file).values())
    assert rows_of(file).keys() == {("peers", name, 1), ("peers", name, 3)}
    assert processes_below(roots) == []
    assert list(roots.iterdir()) == []


def processes_below(folder: Path) -> list[str]:
    return [
        str(process) for process in Path("/proc").glob("[0-9]*/cwd")
        if str(folder) in os.path.realpath(process)
    ]  # fmt: skip


def test_two_checkouts_are_compared_in_pairs(tmp_path: Path) -> None:
    file = tmp_path / "found.json"

    done = run("compare.py", REPOSITORY, REPOSITORY, tmp_path, "--rounds=2", "--messages=12",
               "--connections=1,3", "--batch-connections=2", f"--json={file}")  # fmt: skip

    rows = rows_of(file)
    for name in ("before", "after"):
        assert rows["requests", name, 1] == rows["requests", name, 3] == PHASES | {"cycle"}
        assert rows["batches", name, 2] == PHASES
    assert "ratio" in done.stdout


def test_without_a_compiler_the_rest_is_measured(tmp_path: Path) -> None:
    done = run("bench.py", *FEW, "--parts=ceilings,requests", tmp_path, PATH=str(tmp_path))

    assert "no file calls in C: there is no cc here" in done.stderr
    assert "publish" in done.stdout


def test_a_profile_names_what_the_time_goes_to(tmp_path: Path) -> None:
    if not (shutil.which("py-spy") or Path(sys.executable).with_name("py-spy").exists()):
        pytest.skip("install the extra bench")

    done = run("hotspots.py", "--messages=300", "--connections=3", tmp_path)

    assert "| thread " in done.stdout
    assert "| module " in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["throughput.py", "--rounds=1", "--messages=12", "--connections=3", "--servers=1,2",
         "--apart"],
        ["depth.py", "--depth=20", "--rounds=1", "--messages=12", "--connections=3"],
        ["many_queues.py", "--queues=1,5", "--rounds=1", "--messages=12", "--connections=3"],
        ["body_sizes.py", "--sizes=10,200000,600000", "--rounds=1", "--messages=12",
         "--connections=3"],
        ["kinds.py", "--rounds=1", "--messages=12", "--connections=3"],
        ["sqs.py", "--rounds=1", "--messages=40", "--connections=3"],
        ["fifo_depth.py", "--depth=20", "--groups=5", "--rounds=1", "--messages=40",
         "--connections=3"],
        ["wakeup.py", "--waiters=1,3", "--samples=5", "--idle=0"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_the_others_run_too(words: list[str], tmp_path: Path) -> None:
    assert run(*words, tmp_path).stdout


def test_a_run_through_spark_that_needs_more_inodes_than_there_are_says_so(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")

    done = attempt("spark.py", tmp_path, "--messages=1000000000000")

    assert done.returncode == 1
    assert " free inodes, and this run needs 7,000,000,140,000; choose fewer" in done.stderr


@pytest.mark.parametrize(
    ("script", "option", "package"),
    [("depth.py", "--depth", ""), ("vsqs_depth.py", "--depths", "persistqueue")],
)
def test_an_interrupt_leaves_nothing(
    script: str, option: str, package: str, tmp_path: Path
) -> None:
    """Filling a deep queue takes minutes."""
    if package:
        pytest.importorskip(package)
    command = [sys.executable, str(FOLDER / script), str(tmp_path), f"{option}=100000000"]
    filling = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tmp_path.rglob("*"))) > 20, 60)

    filling.send_signal(signal.SIGINT)

    assert filling.wait(60) != 0
    assert list(tmp_path.iterdir()) == []


def test_a_peer_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    done = attempt("bench.py", *FEW, "--parts=peers", "--peers=redis", tmp_path)

    assert done.returncode == 2
    assert "no peer redis: beanstalkd, Redis, PostgreSQL, RabbitMQ" in done.stderr


def test_a_body_that_the_ceilings_cannot_take_is_refused(tmp_path: Path) -> None:
    refused = attempt("bench.py", "--size=20000", tmp_path)

    assert refused.returncode == 2
    assert "--parts requests,batches" in " ".join(refused.stderr.split())


def test_what_a_gateway_refuses_in_a_batch_is_not_counted() -> None:
    body = b'{"Failed": [{"Id": "3", "Code": "InternalError"}]}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    code = f"import sqs; sqs.require_all({answer!r})"

    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=FOLDER
    )

    assert "RuntimeError: HTTP/1.1 200 OK" in done.stderr
    assert "InternalError" in done.stderr
