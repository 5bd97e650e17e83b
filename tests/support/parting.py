"""A server that ends its connections as one does whose patience with idle ones is over."""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress

_AT_ONCE = struct.pack("ii", 1, 0)


class Parting:
    """Answers the first request of each connection. The second one meets the end: the server reads
    it and closes, or, with `resets`, sends a reset. With `part` it begins an answer before. Later
    connections are answered `then`, if that is given."""

    def __init__(
        self, answer: bytes, *, resets: bool = False, part: bytes = b"", then: bytes = b""
    ) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self._answer = answer
        self._resets = resets
        self._part = part
        self._then = then or answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                answer = self._then if self.connections else self._answer
                self.connections += 1
                talk = threading.Thread(target=self._talk, args=(connection, answer), daemon=True)
                talk.start()

    def _talk(self, connection: socket.socket, answer: bytes) -> None:
        with connection, suppress(OSError):
            if request := _read_request(connection):
                self.requests.append(request)
                connection.sendall(answer)
            if _read_request(connection):
                connection.sendall(self._part)
                if self._resets:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _read_request(connection: socket.socket) -> bytes:
    """Return a whole request, or b"" if the client has closed. Its head and its body may come one
    after the other."""
    request = b""
    while data := connection.recv(65536):
        request += data
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if end and len(body) >= (int(length[1]) if length else 0):
            return request
    return b""
