"""A proxy that loses answers: the server has done what was asked, and the client is not told."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class LossyProxy:
    """Passes on what client and server say. Of the next `losses` answers only `kept_bytes` bytes
    come through, or `instead` in their place; then the connection is closed."""

    def __init__(self, port: int, kept_bytes: int, host: str = "127.0.0.1") -> None:
        self.losses = 0
        self.lost = 0
        self.instead = b""
        self._port = port
        self._kept_bytes = kept_bytes
        self._listener = socket.create_server((host, 0))
        self.url = f"http://{host}:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=_pump, args=(client, server), daemon=True).start()
        with client, server, suppress(OSError):
            while data := server.recv(65536):
                if self.losses > 0:
                    self.losses -= 1
                    self.lost += 1
                    client.sendall(self.instead or data[: self._kept_bytes])
                    break
                client.sendall(data)
            # Closing alone would wait for the other thread, which still reads from it.
            client.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class LateProxy(LossyProxy):
    """Holds back an answer with a message until the client has said that it sends no more."""

    def __init__(self, port: int) -> None:
        self.holds = threading.Event()
        super().__init__(port, 0)

    def _pass_on(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        has_ended = threading.Event()

        def listen() -> None:
            with suppress(OSError):
                while data := client.recv(65536):
                    server.sendall(data)
            has_ended.set()

        threading.Thread(target=listen, daemon=True).start()
        with client, server, suppress(OSError):
            while data := server.recv(65536):
                if b"X-Receive-Count" in data:
                    self.holds.set()
                    has_ended.wait(30)
                client.sendall(data)
