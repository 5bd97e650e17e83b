"""A server for jobs that work by url, and their staging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mq.client import Client, Queue
from pyspark_mq.by_url.staging import prepare_staging
from pyspark_mq.options.addresses import Addresses
from tests.support.processes import Server


class UrlSite:
    """A server with the queue `orders`, a client of it, and a staging for jobs."""

    def __init__(self, server: Server, staging: Path) -> None:
        self.server = server
        self.staging = staging
        self.mq = Client(server.url)
        self.orders: Queue = self.mq.queue("orders")
        self.orders.create()

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.server.url, "staging": str(self.staging), "queue": "orders"}

    def prepare(self, direction: str) -> Path:
        """Make the staging's root of a direction, and return it."""
        path = self.staging / direction
        prepare_staging(path, (self.server.url,))
        return path

    def addresses(self, **settings: Any) -> Addresses:
        return Addresses((self.server.url,), **settings)

    def publish(self, count: int) -> list[str]:
        """Publish messages whose bodies are their numbers. Returns their ids."""
        return self.orders.publish_many([f"{number:04}" for number in range(count)])

    def bodies(self, queue: str = "orders") -> list[bytes]:
        """Return what is ready, in order."""
        return [each.body for each in self.mq.queue(queue).peek(1000)]

    def staged(self, direction: str, folder: str) -> list[str]:
        top = self.staging / direction / folder
        return sorted(str(each.relative_to(top)) for each in top.rglob("*") if each.is_file())
