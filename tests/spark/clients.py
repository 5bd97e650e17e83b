"""Clients of a server while Spark works on its root; what they were answered is the judge."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Callable

from tests.support.processes import Server

PAUSE_SECONDS = 0.03


class Clients:
    """A producer and two consumers, each with a connection of its own and a log."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.url = server.url
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self.published: list[bytes] = []
        self.consumed: list[bytes] = []
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(work,))
            for work in (self._publish, self._consume, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []

    def _run(self, work: Callable[[http.client.HTTPConnection], None]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        try:
            while not self._stopping.wait(PAUSE_SECONDS):
                work(connection)
        except Exception as error:
            self.errors.append(repr(error))
        finally:
            connection.close()

    def _publish(self, connection: http.client.HTTPConnection) -> None:
        body = b"message %06d" % len(self.published)
        assert self._ask(connection, "POST", "/orders/messages", body)[0] == 201
        self.published.append(body)

    def publish_many(self, count: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        bodies = [b"one of many %06d" % number for number in range(count)]
        for start in range(0, count, 1000):
            lines = [json.dumps({"body": body.decode()}) for body in bodies[start : start + 1000]]
            batch = "\n".join(lines).encode()
            headers = {"Content-Type": "application/x-ndjson"}
            connection.request("POST", "/orders/messages?batch", batch, headers)
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (201, True)
        connection.close()
        self.published += bodies

    def _consume(self, connection: http.client.HTTPConnection) -> None:
        """Now and then, so that most is left to Spark."""
        self._stopping.wait(20 * PAUSE_SECONDS * random.random())
        status, message_id, body = self._ask(connection, "GET", "/orders/messages")
        if status == 200:
            path = f"/orders/messages/{message_id}"
            assert self._ask(connection, "DELETE", path)[0] == 202
            self.consumed.append(body)

    @staticmethod
    def _ask(
        connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, str, bytes]:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("X-Message-Id", ""), answer.read()
