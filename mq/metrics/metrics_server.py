"""The server behind `--metrics-port`: a thread for each client, beside a process that has other
things to do. Whatever clients do, that process keeps its descriptors and its threads."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog

from mq.config import Address

log = structlog.get_logger(__name__)

MAX_METRICS_CLIENTS = 16
METRICS_CLIENT_SECONDS = 30.0
"""How long a client has from its connection until it has read its answer."""

LOOK_SECONDS = 0.5


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Listens on an address and serves `application`. Connections above MAX_METRICS_CLIENTS are
    closed at once. Raises OSError, or UnicodeError for what cannot be the name of a host."""

    daemon_threads = True

    def __init__(self, address: Address, application: Callable[..., Any]) -> None:
        infos = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, name = infos[0][0], infos[0][4]
        self.clients: dict[Any, float] = {}
        """When each client came, by its socket."""
        super().__init__((str(name[0]), address.port), _SilentHandler)
        self.set_app(application)

    def start(self) -> None:
        """Serve in a thread until the process ends."""
        threading.Thread(target=self.serve_forever, args=(LOOK_SECONDS,), daemon=True).start()

    def get_request(self) -> Any:
        """Accept a client. If the system refuses that, because no descriptor is left for example,
        pause: the client that waits would wake this thread again at once."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(LOOK_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self.clients) >= MAX_METRICS_CLIENTS:
            self.shutdown_request(request)
            return
        self.clients[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            del self.clients[request]
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            del self.clients[request]

    def service_actions(self) -> None:
        """Cut off clients that are too slow. `serve_forever` calls this every half a second."""
        since = time.monotonic() - METRICS_CLIENT_SECONDS
        for client, came in list(self.clients.items()):
            if came < since:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a defect, which a client that went away is not."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("metrics not served")


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""
