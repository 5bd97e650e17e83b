"""A docker of the tests' own, in a network namespace of its own, and its clients."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.deploy.running import run
from tests.support.processes import wait_until

PROJECT = "mqtest"

EAGER = """\
services:
  mq: {healthcheck: {interval: 1s}}
  prometheus: {image: prom/prometheus}
"""
"""The mover and the reaper start when the server is healthy; no test waits ten seconds for it. The
image of Prometheus is one of the tests' own, which has no digest."""


class Docker:
    """A daemon, and its clients in its network namespace. `context` is what images are built
    from: a clone of this repository, with wheels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.context = folder / "context"
        self._eager = folder / "eager.yaml"
        self._eager.write_text(EAGER)
        self._namespace = f"mq-{os.getpid()}"
        run("ip", "netns", "add", self._namespace)
        run("ip", "-n", self._namespace, "link", "set", "lo", "up")
        host = f"unix://{folder}/docker.sock"
        self._environment = os.environ | {"DOCKER_HOST": host}
        with (folder / "dockerd.log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [*self._inside, "dockerd", "--data-root", folder / "data", "--exec-root",
                 folder / "exec", "--pidfile", folder / "pid", "--host", host,
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

    def __call__(self, *words: str | Path) -> str:
        return run(*self._inside, "docker", *words, env=self._environment)

    def compose(self, *words: str) -> str:
        return run(*self._inside, "docker-compose", "--project-name", PROJECT, "--file",
                   self.context / "deploy" / "compose.yaml", "--file", self._eager, *words,
                   env=self._environment)  # fmt: skip

    def container(self, service: str) -> str:
        """Its id; empty if it does not run."""
        label = f"label=com.docker.compose.service={service}"
        return self("ps", "--quiet", "--filter", label).strip()

    def volume(self, name: str) -> Path:
        """Where the files of a volume of the compose file are."""
        return Path(self("volume", "inspect", "--format", "{{.Mountpoint}}",
                         f"{PROJECT}_{name}").strip())  # fmt: skip

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
