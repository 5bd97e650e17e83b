"""The image and the compose file, built and run by a docker of the tests' own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.deploy.docker import Docker
from tests.deploy.running import require
from tests.support.processes import wait_until
from tests.support.sources import REPOSITORY

pytestmark = pytest.mark.timeout(600)
"""Debian is fetched and made an image before the first test."""

URL = "http://127.0.0.1:8080"
GATEWAY = "http://127.0.0.1:9324"
PROMETHEUS = "http://127.0.0.1:9090"

PROMETHEUS_IMAGE = """\
FROM python:3.13-slim
COPY prometheus /bin/prometheus
RUN install -d -o 65534 -g 65534 /prometheus
USER 65534
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
"""
"""As prom/prometheus is, with the program of this machine."""


@pytest.fixture(scope="module")
def stack(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """The stack with Prometheus."""
    require("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "Dockerfile").write_text(PROMETHEUS_IMAGE)
    shutil.copy(str(shutil.which("prometheus")), folder)
    docker("build", "--quiet", "--tag", "prom/prometheus", folder)
    _up(docker)
    yield docker
    docker.compose("--profile", "metrics", "--profile", "sqs", "down", "--volumes")


def _up(docker: Docker) -> None:
    docker.compose("--profile", "metrics", "--profile", "sqs", "up", "--detach", "--no-build")
    docker.wait_for_server(URL)


def _ask(docker: Docker, path: str) -> Any:
    body = docker.curl(f"{PROMETHEUS}/api/v1/{path}").removesuffix(" 200")
    return json.loads(body)["data"]


def test_the_environment_says_how_long_the_reaper_keeps() -> None:
    """So that another compose file can, too: a flag would override the variable."""
    text = (REPOSITORY / "deploy" / "compose.yaml").read_text()
    reaper = yaml.safe_load(text)["services"]["reaper"]

    assert float(reaper["environment"]["MQ_KEEP"]) > 0
    assert not any(word.startswith("--keep") for word in reaper["command"])


def test_image_holds_what_runs_and_nothing_that_builds(docker: Docker) -> None:
    (image,) = json.loads(docker("image", "inspect", "mq"))
    listing = docker("run", "--rm", "--network=none", "mq", "ls", "/opt/mq/bin", "/")

    assert image["Config"]["User"] not in ("", "0", "root")
    assert image["Config"]["StopSignal"] == "SIGTERM"
    assert image["Config"]["Healthcheck"]["Test"][0] == "CMD"
    assert image["Config"]["Labels"]["org.opencontainers.image.title"] == "MQ"
    assert {"mq", "mq-mover", "mq-reaper", "mq-sqs", "mqctl"} <= set(listing.split())
    assert not {"pip", "wheels", "src", "gcc"} & set(listing.split())
    folders = docker("run", "--rm", "--network=none", "mq", "stat", "--format=%u %a", "/var/lib",
                     "/var/lib/mq")  # fmt: skip
    assert folders.splitlines() == ["0 755", "10001 700"]


def test_image_runs_alone_with_a_root_file_system_that_cannot_be_written(docker: Docker) -> None:
    name = "mq-alone"
    docker("run", "--detach", "--rm", "--name", name, "--network=host", "--read-only",
           "--cap-drop=ALL", "--health-interval=1s", "--env=MQ_PORT=8090",
           "--env=MQ_ADMIN=127.0.0.1:8081", "--mount=type=volume,target=/var/lib/mq",
           "mq")  # fmt: skip
    try:
        docker.wait_for_server("http://127.0.0.1:8090")
        assert docker.curl("-X", "PUT", "http://127.0.0.1:8090/orders").endswith("201")
        health = ("inspect", "--format", "{{.State.Health.Status}}", name)
        wait_until(lambda: docker(*health).strip() == "healthy", 60)
    finally:
        docker("stop", "--time=20", name)


def test_one_container_shows_its_page_to_this_machine(docker: Docker) -> None:
    document = (REPOSITORY / "docs" / "deploy.md").read_text()
    lines = document.partition("<!-- one container -->\n```sh\n")[2].partition("\n```")[0]
    program, *words = shlex.split(lines.splitlines()[-1])
    assert program == "docker"

    container = docker(*words).strip()
    try:
        docker.wait_for_server("http://127.0.0.1:8081/readyz")
        assert docker.curl("-X", "PUT", f"{URL}/orders").endswith("201")
        assert '"queue": "orders"' in docker.curl("http://127.0.0.1:8081/queues")
    finally:
        docker("rm", "--force", "--volumes", container)
        docker("volume", "rm", "mq")


def test_message_survives_kill_down_and_up(stack: Docker) -> None:
    assert stack.curl("-X", "PUT", f"{URL}/orders").endswith("201")
    assert stack.curl("-d", "two coffees", f"{URL}/orders/messages").endswith("201")

    pid = stack("inspect", "--format", "{{.State.Pid}}", stack.container("mq"))
    os.kill(int(pid), signal.SIGKILL)  # `docker kill` would pass for a stop, and no restart
    stack.wait_for_server(f"{URL}/orders")
    stack.compose("--profile", "metrics", "--profile", "sqs", "down")
    _up(stack)

    assert stack.curl(f"{URL}/orders/messages") == "two coffees 200"


def test_mover_and_reaper_work_beside_the_server(stack: Docker) -> None:
    wait_until(lambda: stack.container("mover") and stack.container("reaper"), 90)
    stack.curl("-X", "PUT", f"{URL}/short")
    stack.curl("-d", "again", f"{URL}/short/messages")
    assert stack.curl(f"{URL}/short/messages?visibility=1") == "again 200"

    wait_until(lambda: stack.curl(f"{URL}/short/messages") == "again 200", 100)


def test_the_gateway_for_sqs_is_reached_by_the_name_of_its_container(stack: Docker) -> None:
    wait_until(lambda: stack.container("sqs"), 90)
    stack.wait_for_server(f"{GATEWAY}/?Action=ListQueues")

    made = stack.curl("-H", "Host: sqs:9324", f"{GATEWAY}/?Action=CreateQueue&QueueName=by-sqs")

    assert "http://sqs:9324/000000000000/by-sqs" in made
    assert '"queue": "by-sqs"' in stack.curl(f"{URL}/by-sqs")


def test_prometheus_scrapes_the_four_and_has_the_rules(stack: Docker) -> None:
    stack.wait_for_server(f"{PROMETHEUS}/-/ready")
    jobs = {"mq", "mq-mover", "mq-reaper", "mq-sqs"}

    def up() -> set[str]:
        found = _ask(stack, "query?query=up==1")["result"]
        return {each["metric"]["job"] for each in found}

    wait_until(lambda: up() == jobs, 60)
    lag = _ask(stack, "query?query=mq_mover_lag_seconds")["result"]
    assert {each["metric"]["job"] for each in lag} == {"mq", "mq-mover", "mq-sqs"}
    (group,) = _ask(stack, "rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}


def test_containers_end_at_sigterm(stack: Docker) -> None:
    containers = [stack.container(service) for service in ("mq", "mover", "reaper", "sqs")]

    stack.compose("--profile", "metrics", "--profile", "sqs", "stop")

    code = ("inspect", "--format", "{{.State.ExitCode}}")
    assert [stack(*code, container).strip() for container in containers] == ["0"] * 4
