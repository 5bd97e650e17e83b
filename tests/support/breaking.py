"""A server that breaks its answers off."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Breaking:
    """Gives each request the next answer, and then closes, keeps silent, or gives it again and
    again."""

    def __init__(self, answers: list[bytes], *, holds: bool = False, repeats: bool = False) -> None:
        self.requests = 0
        self._answers = answers
        self._repeats = repeats
        self._may_close = threading.Event()
        if not (holds or repeats):
            self._may_close.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    if connection.recv(65536):
                        answer = self._answers[min(self.requests, len(self._answers) - 1)]
                        self.requests += 1
                        connection.sendall(answer)
                        while self._repeats and not self._may_close.wait(0.01):
                            connection.sendall(answer)
                        self._may_close.wait(30)

    def close(self) -> None:
        self._may_close.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
