"""Sockets to listen on: for an address, a unix socket, or those that systemd hands over.
`mq.daemon.listeners` decides which ones a server listens on.

Each socket listens as soon as it is bound, before the store is opened: two sockets may be bound to
one address while neither listens. Connections that arrive in between wait until the server is
ready.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from mq.config import FOLDER_LOCK_SECONDS, Address
from mq.daemon.tls import Certificate
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.web.connections.handshakes import SecureServer
from mq.web.connections.http_server import HttpServer

_BACKLOG = 1024
_FIRST_HANDED_FD = 3
ADMIN_SOCKET_NAME = "admin"
"""The `FileDescriptorName=` of the socket for the admin listener."""


class Listener:
    """A bound socket that listens. `path` is that of a unix socket that this process made and that
    `close` removes. Raises OSError if another process listens there, or if the socket is of another
    kind."""

    def __init__(
        self, bound: socket.socket, path: Path | None = None, tls: Certificate | None = None
    ) -> None:
        bound.listen(_BACKLOG)
        bound.setblocking(False)
        self._socket = bound
        self._path = path
        self._tls = None if bound.family == socket.AF_UNIX else tls
        self._inode = os.stat(path).st_ino if path is not None else 0
        self._server: asyncio.Server | SecureServer | None = None
        self.url = self._make_url()

    def _make_url(self) -> str:
        name = self._socket.getsockname()
        if self._socket.family == socket.AF_UNIX:
            return f"unix:{os.fsdecode(name)}"
        return f"{'http' if self._tls is None else 'https'}://{Address(name[0], name[1])}"

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def is_open_to_others(self) -> bool:
        """Whether other machines may reach it."""
        return self._socket.family != socket.AF_UNIX and not is_loopback(
            self._socket.getsockname()[0]
        )

    async def serve(self, http: HttpServer) -> None:
        """Accept connections, first those that wait already."""
        loop = asyncio.get_running_loop()
        if self._tls is not None:
            self._server = SecureServer(self._socket, http, self._tls.current)
        elif self._socket.family == socket.AF_UNIX:
            self._server = await loop.create_unix_server(http, sock=self._socket, backlog=_BACKLOG)
        else:
            self._server = await loop.create_server(http, sock=self._socket, backlog=_BACKLOG)

    def close(self) -> None:
        """Accept no more connections; existing ones stay."""
        # The name goes first: a server that starts meanwhile takes it only when nobody listens, and
        # would lose it here.
        if self._path is not None and _inode(self._path) == self._inode:
            with suppress(OSError):  # The next server takes it for that of a crash.
                _unlink(self._path)
        self._path = None
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()


def bind_address(
    address: Address, tls: Certificate | None, reuse_port: bool = False
) -> list[Listener]:
    """Listen on every address of a host name; `localhost` may have two. Raises OSError."""
    found = socket.getaddrinfo(
        address.host.encode(), address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listeners: list[Listener] = []
    try:
        for family, kind, protocol, _, found_name in dict.fromkeys(found):
            port = listeners[0].port if listeners else address.port
            name = (found_name[0], port, *found_name[2:])
            bound = socket.socket(family, kind, protocol)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if reuse_port:
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.bind(name)
                listeners.append(Listener(bound, tls=tls))
            except BaseException:
                bound.close()
                raise
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def free_port(address: Address) -> int:
    """Return a port that is free just now. Raises OSError."""
    listeners = bind_address(address, None)
    try:
        return listeners[0].port
    finally:
        for listener in listeners:
            listener.close()


def bind_unix(path: Path, mode: int) -> Listener:
    """Listen on a unix socket. If a socket is there and no process listens on it, a crash left it,
    and it is replaced. Raises StartRefused."""
    files = Files()
    with ExitStack() as stack:
        # Servers that start at once take turns: one could unlink what another has just bound. This
        # goes on without the lock if the folder cannot be locked within a second.
        with suppress(OSError):
            folder = files.open_folder(None, str(path.parent.resolve()))
            stack.callback(files.close, folder)
            stack.enter_context(files.locked_folder(folder, ".", FOLDER_LOCK_SECONDS))
        _discard_stale(path)
        return _bind_unix(path, mode)


def _bind_unix(path: Path, mode: int) -> Listener:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~mode)
    try:
        bound.bind(str(path))
        return Listener(bound, path)
    except OSError as error:
        bound.close()
        is_missing = not path.parent.exists()
        way_out = f"make the folder {path.parent} or " if is_missing else ""
        raise refusal(f"unix socket {path}", error, f"{way_out}choose another --socket") from error
    finally:
        os.umask(mask)


def take_handed_over(tls: Certificate | None) -> dict[str, list[Listener]]:
    """Return the listeners that systemd hands over, by name (sd_listen_fds(3)), and drop its
    variables.

    Requests that came while no server ran wait there.
    """
    number = os.environ.pop("LISTEN_FDS", "")
    process = os.environ.pop("LISTEN_PID", "")
    names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
    found: dict[str, list[Listener]] = {}
    if process != str(os.getpid()) or not number.isdigit():
        return found
    for position in range(int(number)):
        fd = _FIRST_HANDED_FD + position
        try:
            os.set_inheritable(fd, False)
            listener = Listener(socket.socket(fileno=fd), tls=tls)
        except OSError as error:
            raise refusal(
                f"descriptor {fd} of LISTEN_FDS", error, "hand over sockets to listen on"
            ) from error
        name = names[position] if position < len(names) else ""
        found.setdefault(name, []).append(listener)
    return found


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def refusal(what: str, error: OSError, way_out: str) -> StartRefused:
    # A name that cannot be resolved has a negative number, of getaddrinfo(3).
    is_of_system = error.errno is not None and error.errno > 0
    reason = os.strerror(error.errno or 0) if is_of_system else error.strerror or error
    return StartRefused(ExitCode.UNAVAILABLE, f"cannot listen on {what}: {reason}; {way_out}")


def _discard_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            taken = FileExistsError(errno.EEXIST, "there is a file of that name")
            raise refusal(f"unix socket {path}", taken, "move it away or choose another --socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(1.0)
        try:
            tried.connect(str(path))
        except ConnectionRefusedError:
            _unlink(path)
            return
        except OSError as error:
            raise refusal(f"unix socket {path}", error, "choose another --socket") from error
    used = OSError(errno.EADDRINUSE, "")
    raise refusal(f"unix socket {path}", used, "stop what listens there or choose another --socket")


def _unlink(path: Path) -> None:
    files = Files()
    folder = files.open_folder(None, str(path.parent.resolve()))
    try:
        files.unlink(folder, path.name)
    except FileNotFoundError:
        pass
    finally:
        files.close(folder)


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None
