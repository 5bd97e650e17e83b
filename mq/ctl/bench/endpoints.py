"""MQ's six endpoints, for the load generator; docs/protocol.md says what they mean."""

from __future__ import annotations

from typing import NamedTuple

from mq.ctl.bench.generator import Script


class Endpoints(NamedTuple):
    """How to speak to a server with these endpoints, at one queue. `prefix` precedes every path."""

    host: str = "mq"
    queue: str = "bench"
    prefix: str = ""
    token: str | None = None

    def read(self, buffer: bytes) -> int:
        head, separator, body = buffer.partition(b"\r\n\r\n")
        if not separator:
            return 0
        names = head.lower()
        at = names.find(b"content-length:")
        if at >= 0:
            length = int(names[at + 15 :].partition(b"\r")[0])
        elif b"transfer-encoding: chunked" in names:
            length = len(body) if buffer.endswith(b"\r\n0\r\n\r\n") else len(body) + 1
        else:
            length = 0
        return len(head) + 4 + length if len(body) >= length else 0

    def opening(self) -> Script:
        yield from ()

    def make_queue(self) -> Script:
        self.check((yield self.request("PUT", f"/{self.queue}")))

    def delete_queue(self) -> Script:
        self.check((yield self.request("DELETE", f"/{self.queue}")))

    def publish(self, body: bytes) -> bytes:
        return self.request("POST", f"/{self.queue}/messages", body)

    def receive(self) -> bytes:
        return self.request("GET", f"/{self.queue}/messages")

    def remove(self, message_id: bytes) -> bytes:
        return self.request("DELETE", f"/{self.queue}/messages/{message_id.decode()}")

    def check(self, answer: bytes) -> None:
        # 207 says that some of several were not removed.
        if answer[9:10] != b"2" or answer[9:12] == b"207":
            raise RuntimeError(answer.decode(errors="replace"))

    def message_id(self, answer: bytes) -> bytes | None:
        self.check(answer)
        if answer[9:12] == b"204":
            return None
        at = answer.lower().index(b"x-message-id:") + 13
        return answer[at : answer.index(b"\r", at)].strip()

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        headers = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self.host}"]
        if self.token is not None:
            headers.append(f"Authorization: Bearer {self.token}")
        if body or method == "POST":
            headers.append(f"Content-Length: {len(body)}")
        if kind:
            headers.append(f"Content-Type: {kind}")
        return "\r\n".join([*headers, "", ""]).encode() + body
