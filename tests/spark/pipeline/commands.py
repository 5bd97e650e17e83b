"""mq-pipeline as processes on a server, to be stopped in all ways."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.spark.dying.sitecustomize import processes_of
from tests.support.processes import Server, wait_until
from tests.support.sources import REPOSITORY
from tests.support.url_site import UrlSite

FAULTS = ("SIGKILL", "SIGINT", "SIGTERM", "restart", "SIGKILL and restart")


class Command:
    """One run of mq-pipeline, in a session of its own."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.log = folder / "mq-pipeline.log"
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "pyspark_mq.pipeline", *arguments],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ
                | {"PYTHONPATH": f"{REPOSITORY}", "SPARK_DRIVER_MEMORY": "1g"}
                | environment,
            )  # fmt: skip

    def wait(self) -> int:
        """Its exit code, when nothing of it runs any more."""
        code = self.popen.wait(480)
        wait_until(lambda: not processes_of(self.popen.pid), 180)
        return code

    def has_ended(self) -> bool:
        return self.popen.poll() is not None

    def end_of_log(self) -> str:
        return self.log.read_text()[-4000:]

    def kill(self) -> None:
        while alive := processes_of(self.popen.pid):
            for pid in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.popen.wait(60)


class CommandScene:
    """A server with the queue `orders`, and commands that are started in a folder."""

    def __init__(self, folder: Path, root: Path, start_server: Callable[..., Server]) -> None:
        self.folder = folder
        self.site = UrlSite(start_server(root=root), root.parent / "staging")
        self._start_server = start_server
        self._started: list[Command] = []

    def start(self, *arguments: str) -> Command:
        self._started.append(Command(self.folder, *arguments))
        return self._started[-1]

    def place(self, kind: str) -> list[str]:
        """The flags that say where the queues are."""
        if kind == "root":
            return [f"--root={self.site.server.root}"]
        return [f"--url={self.site.server.url}", f"--staging={self.site.staging}"]

    def has_staged(self, kind: str) -> bool:
        """Whether a write has begun."""
        top = self.site.server.root if kind == "root" else self.site.staging / "out"
        return any((top / "spark/stage").glob("*/*/*"))

    def restart(self) -> None:
        server = self.site.server
        server.kill()
        self._start_server(f"--port={server.port}", root=server.root)

    def strike(self, fault: str, command: Command) -> None:
        """Stop a command, or its server, or both."""
        if fault.startswith("SIGKILL"):
            command.kill()
        if fault.endswith("restart"):
            self.restart()
        if fault in ("SIGINT", "SIGTERM"):
            os.kill(command.popen.pid, getattr(signal, fault))
            assert command.wait() == 130, command.end_of_log()
            assert "interrupted: run it again to go on" in command.log.read_text()
        if fault == "restart":
            assert command.wait() == 0, command.end_of_log()

    def close(self) -> None:
        for command in self._started:
            command.kill()
        self.site.mq.close()


def checksum(bodies: Iterable[bytes]) -> str:
    each = sorted(hashlib.sha256(body).digest() for body in bodies)
    return hashlib.sha256(b"".join(each)).hexdigest()
