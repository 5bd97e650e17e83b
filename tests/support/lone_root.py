"""A root without a server, for those who read and write its files themselves."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.ids import ServerIds
from mq.names import MessageId, QueueName
from mq.spool.root import open_root
from tests.support.messages import seal_of, write_message


def make_root(path: Path, *queues: str) -> None:
    """Make a root like a server that then stops."""
    open_root(path, ServerConfig().mode, Files())[0].close()
    for queue in queues:
        (path / "queues" / queue).mkdir()


class Root:
    """A root without a server, into which tests put messages as a server would leave them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ids = ServerIds(time.time_ns)
        make_root(path)

    def make(self, *queues: str) -> None:
        for queue in queues:
            (self.path / "queues" / queue).mkdir(exist_ok=True)

    def put(self, queue: str, *bodies: bytes, folder: str = "queues", **seal: int) -> list[str]:
        """Write messages that are ready, or in another folder. Returns their ids."""
        self.make(queue)
        return [self._put(QueueName(queue), body, folder, seal) for body in bodies]

    def _put(self, queue: QueueName, body: bytes, folder: str, seal: dict[str, int]) -> MessageId:
        message_id = self._ids.next()
        name = f"{queue}/{message_id}" if folder == "queues" else f"{queue}:{message_id}"
        sealed = seal_of(body, **{"published_ns": time.time_ns()} | seal)
        write_message(self.path / folder / name, body, seal=sealed)
        return message_id

    def names(self, folder: str) -> list[str]:
        """Return every file below a folder, relative to it."""
        top = self.path / folder
        return sorted(
            str(Path(parent, name).relative_to(top))
            for parent, _, names in os.walk(top)
            for name in names
            if not name.startswith(".")
        )
