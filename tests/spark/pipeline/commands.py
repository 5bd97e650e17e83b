"""mq-pipeline as processes on a server, to be stopped in all ways."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.process_trees import ProcessTree
from tests.support.processes import Server
from tests.support.sources import REPOSITORY
from tests.support.url_site import UrlSite

FAULTS = ("SIGKILL", "SIGINT", "SIGTERM", "restart", "SIGKILL and restart")


class Command(ProcessTree):
    """One run of mq-pipeline, with a log of its own."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        log = folder / "mq-pipeline.log"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pyspark_mq.pipeline", *arguments]
        always = {"PYTHONPATH": f"{REPOSITORY}", "SPARK_DRIVER_MEMORY": "1g"}
        super().__init__(command, folder, log, always | environment)


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
