"""The image and the compose file: built and run by a docker of the test's own, in a network
namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.deploy.conftest import require, run
from tests.tidy.sources import REPOSITORY

pytestmark = pytest.mark.timeout(600)
"""Debian is fetched and made an image before the first test."""

URL = "http://127.0.0.1:8080"
BASE_IMAGE = "python:3.13-slim"
PROJECT = "mqtest"


class Docker:
    """A daemon, and its clients in its network namespace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._namespace = f"mq-{os.getpid()}"
        run("ip", "netns", "add", self._namespace)
        run("ip", "-n", self._namespace, "link", "set", "lo", "up")
        self._host = f"unix://{folder}/docker.sock"
        with (folder / "dockerd.log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [*self._inside, "dockerd", "--data-root", folder / "data", "--exec-root",
                 folder / "exec", "--pidfile", folder / "pid", "--host", self._host,
                 "--storage-driver", "overlay2"],
                stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._is_up, 60)

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self._namespace}"]

    def _is_up(self) -> bool:
        assert self._daemon.poll() is None, (self._folder / "dockerd.log").read_text()
        return (self._folder / "docker.sock").exists()

    def __call__(self, *words: str | Path, **more: object) -> str:
        return run(*self._inside, "docker", "--host", self._host, *words, **more)

    def compose(self, *words: str) -> str:
        return run(*self._inside, "docker-compose", "--host", self._host, "--project-name",
                   PROJECT, "--file", REPOSITORY / "deploy" / "compose.yaml", *words)  # fmt: skip

    def curl(self, *arguments: str) -> str:
        """Body and status."""
        return run(*self._inside, "curl", "-sS", "--max-time", "30", "-w", " %{http_code}",
                   *arguments)  # fmt: skip

    def wait_for_server(self, url: str) -> None:
        """The proxy of a published port accepts connections while nobody listens behind it."""
        run(*self._inside, "curl", "-s", "--output", "/dev/null", "--max-time", "10",
            "--retry", "60", "--retry-all-errors", "--retry-delay", "1", url)  # fmt: skip

    def stop(self) -> None:
        self._daemon.terminate()
        self._daemon.wait(60)
        for line in Path("/proc/mounts").read_text().splitlines():
            if line.split()[1].startswith(str(self._folder)):
                run("umount", "--lazy", line.split()[1])
        run("ip", "netns", "delete", self._namespace)


@pytest.fixture(scope="module")
def docker(
    debian: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Docker]:
    """With the image built, by the Dockerfile as it is, from a context with wheels."""
    require("dockerd", "docker-compose", "docker", "ip", "nsenter", "curl")
    folder = tmp_path_factory.mktemp("docker")
    docker = Docker(folder)
    try:
        archive = folder / "base.tar"
        run("tar", "--create", "--file", archive, "--directory", debian, ".")
        docker("import", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", archive, BASE_IMAGE)
        archive.unlink()
        context = folder / "context"
        run("git", "clone", "--quiet", REPOSITORY, context)
        shutil.copytree(wheels, context / "wheels")
        docker("build", "--quiet", "--tag", "mq", context)
        yield docker
    finally:
        docker.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def stack(docker: Docker) -> Iterator[Docker]:
    docker.compose("up", "--detach", "--no-build")
    docker.wait_for_server(URL)
    yield docker
    docker.compose("down", "--volumes")


def _container(docker: Docker, service: str) -> str:
    return docker(
        "ps", "--quiet", "--filter", f"label=com.docker.compose.service={service}"
    ).strip()


def test_image_holds_what_runs_and_nothing_that_builds(docker: Docker) -> None:
    (image,) = json.loads(docker("image", "inspect", "mq"))
    listing = docker("run", "--rm", "--network=none", "mq", "ls", "/opt/mq/bin", "/")

    assert image["Config"]["User"] not in ("", "0", "root")
    assert image["Config"]["StopSignal"] == "SIGTERM"
    assert image["Config"]["Healthcheck"]["Test"][0] == "CMD"
    assert image["Config"]["Labels"]["org.opencontainers.image.title"] == "MQ"
    assert {"mq", "mq-mover", "mq-reaper", "mqctl"} <= set(listing.split())
    assert not {"pip", "wheels", "src", "gcc"} & set(listing.split())
    folders = docker("run", "--rm", "--network=none", "mq", "stat", "--format=%u %a", "/var/lib",
                     "/var/lib/mq")  # fmt: skip
    assert folders.splitlines() == ["0 755", "10001 700"]


def test_image_runs_alone_with_a_root_file_system_that_cannot_be_written(docker: Docker) -> None:
    name = "mq-alone"
    docker("run", "--detach", "--rm", "--name", name, "--network=host", "--read-only",
           "--cap-drop=ALL", "--env=MQ_PORT=8090", "--env=MQ_ADMIN=127.0.0.1:8081",
           "--mount=type=volume,target=/var/lib/mq", "mq")  # fmt: skip
    try:
        docker.wait_for_server("http://127.0.0.1:8090")
        assert docker.curl("-X", "PUT", "http://127.0.0.1:8090/orders").endswith("201")
        health = ("inspect", "--format", "{{.State.Health.Status}}", name)
        wait_until(lambda: docker(*health).strip() == "healthy", 60)
    finally:
        docker("stop", "--time=20", name)


def test_message_survives_kill_down_and_up(stack: Docker) -> None:
    assert stack.curl("-X", "PUT", f"{URL}/orders").endswith("201")
    assert stack.curl("-d", "two coffees", f"{URL}/orders/messages").endswith("201")

    pid = stack("inspect", "--format", "{{.State.Pid}}", _container(stack, "mq"))
    os.kill(int(pid), signal.SIGKILL)  # `docker kill` would pass for a stop, and no restart
    stack.wait_for_server(f"{URL}/orders")
    stack.compose("down")
    stack.compose("up", "--detach", "--no-build")

    stack.wait_for_server(f"{URL}/orders")
    assert stack.curl(f"{URL}/orders/messages") == "two coffees 200"


def test_mover_and_reaper_work_beside_the_server(stack: Docker) -> None:
    wait_until(lambda: _container(stack, "mover") and _container(stack, "reaper"), 90)
    stack.curl("-X", "PUT", f"{URL}/short")
    stack.curl("-d", "again", f"{URL}/short/messages")
    assert stack.curl(f"{URL}/short/messages?visibility=1") == "again 200"

    wait_until(lambda: stack.curl(f"{URL}/short/messages") == "again 200", 30)


def test_profiles_add_prometheus_and_the_archive(docker: Docker) -> None:
    services = set(docker.compose("--profile", "metrics", "--profile", "archive", "config",
                                  "--services").split())  # fmt: skip

    assert services == {"mq", "mover", "reaper", "prometheus", "archive"}
    assert set(docker.compose("config", "--services").split()) >= {"mq", "mover", "reaper"}


def test_containers_end_at_sigterm(stack: Docker) -> None:
    containers = [_container(stack, service) for service in ("mq", "mover", "reaper")]

    stack.compose("stop")

    code = ("inspect", "--format", "{{.State.ExitCode}}")
    assert [stack(*code, container).strip() for container in containers] == ["0"] * 3
