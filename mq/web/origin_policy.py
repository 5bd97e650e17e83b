"""Refuse requests that a page of another site makes a browser send, or that come under another
name.

A page on any site can make its reader's browser send requests to 127.0.0.1, and read the answers
once a name of that site leads there (DNS rebinding). Browsers say where a request comes from: in
`Origin` (RFC 6454), in `Sec-Fetch-Site` (W3C Fetch Metadata), and by the name in `Host`. Other
clients send neither of the first two, and call the server by an address or a name it was given.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from functools import lru_cache

from aiohttp import web
from multidict import istr

from mq.config import ServerConfig
from mq.errors import ForeignPage, UnknownHost
from mq.web.parameters import Head

MAX_KNOWN_HOSTS = 256
"""This many values of the header `Host` are parsed once and remembered."""

ANY_HOST = "*"

_HOST = istr("Host")
_ORIGIN = istr("Origin")
_SITE = istr("Sec-Fetch-Site")
_MODE = istr("Sec-Fetch-Mode")
_DEST = istr("Sec-Fetch-Dest")
_OWN_SITES = ("same-origin", "none")
"""`none` means that the user asked for it, by an address that was typed or a bookmark."""

_EVERY_ADDRESS = ("0.0.0.0", "::")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+(?:%[\w.~-]+)?\]|[^\[\]:%]+)(?::([0-9]{1,5})?)?")
_USUAL_PORTS = {"http": "80", "https": "443"}


class OriginPolicy:
    """Checks requests. `names` are those by which clients may call the server, besides `localhost`
    and any IP address; `*` among them means every name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset({"localhost", *(name.lower() for name in names if name)})
        # This costs two lookups for each request. Only a host that was never used before is parsed.
        self._is_ours = lru_cache(MAX_KNOWN_HOSTS)(self._is_own_host)

    def check(self, request: Head) -> None:
        """Raise UnknownHost or ForeignPage for a request that must not be answered."""
        headers = request.headers
        host = headers.get(_HOST)
        if host and not self._is_ours(host) and not _is_unix(request):
            raise _unknown(f"header Host {host!r}")
        if _ORIGIN in headers:
            _check_origin(headers.getall(_ORIGIN), host or "")
        if _SITE in headers and not all(site in _OWN_SITES for site in headers.getall(_SITE)):
            raise ForeignPage("header Sec-Fetch-Site: a page of another site must not use MQ")

    def admits(self, request: Head) -> bool:
        """Return whether `check` raises nothing. For the same headers and no transport the answer
        is always the same."""
        try:
            self.check(request)
        except (UnknownHost, ForeignPage):
            return False
        return True

    def check_target(self, request: web.BaseRequest) -> None:
        """Check the absolute form, which says whom a request is for, whatever `Host` says (RFC
        9112, section 3.2.2). Raises UnknownHost."""
        _, is_absolute, rest = request.raw_path.partition("://")
        if request.raw_path[0] == "/" or not is_absolute or _is_unix(request):
            return
        if not self._is_ours(re.split("[/?#]", rest)[0]):
            raise _unknown(f"target {request.raw_path!r}")

    def check_reading(self, request: Head) -> None:
        """Check a request that cannot change anything. A link on any page may lead there: the
        browser opens it as a document of its own, which that page cannot read. Raises what `check`
        raises."""
        headers = request.headers
        is_opened = headers.get(_MODE) == "navigate" and headers.get(_DEST) == "document"
        try:
            self.check(request)
        except ForeignPage:
            if not is_opened or _ORIGIN in headers:
                raise

    def _is_own_host(self, host: str) -> bool:
        name, _ = _split(host.lower())
        return ANY_HOST in self._names or name in self._names or _is_address(name)


def origin_policy_of(config: ServerConfig) -> OriginPolicy:
    """Return the policy of a server. The hosts of `--address` and `--admin` are among the names."""
    admin = "" if config.admin is None else config.admin.host
    listening = [host for host in (config.address, admin) if host not in _EVERY_ADDRESS]
    return OriginPolicy((*config.allowed_hosts, *listening))


def _unknown(what: str) -> UnknownHost:
    return UnknownHost(
        f"{what}: this server has no such name; "
        "use its address, or give mq the name with --allowed-host"
    )


def _check_origin(origins: list[str], host: str) -> None:
    """Check the origin: a scheme and an authority, or `null` for a sandboxed page or a file.

    The scheme is not compared: behind a proxy that speaks TLS it differs.
    """
    for origin in origins:
        scheme, _, authority = origin.lower().partition("://")
        usual_port = _USUAL_PORTS.get(scheme)
        if usual_port is None or _own(authority, usual_port) != _own(host.lower(), usual_port):
            raise ForeignPage(f"header Origin {origin!r}: only pages of {host!r} may use MQ there")


def _own(authority: str, usual_port: str) -> tuple[str, str]:
    name, port = _split(authority)
    return name, port or usual_port


def _split(authority: str) -> tuple[str, str]:
    """Return host and port of an authority in lower case. The port is empty if there is none; both
    are if the text is not an authority."""
    match = _AUTHORITY.fullmatch(authority)
    return ("", "") if match is None else (match[1].removesuffix("."), match[2] or "")


def _is_address(name: str) -> bool:
    """Return whether a name is an IP address. Some lead to this machine without a browser knowing,
    so it would not say whose page asks: 0.0.0.0, ::, and IPv4 written as IPv6."""
    try:
        address = ipaddress.ip_address(name.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return False
    return not (address.is_unspecified or getattr(address, "ipv4_mapped", None))


def _is_unix(request: Head) -> bool:
    """Return whether a request came over a unix socket. No name leads to one, so any name will
    do."""
    transport = request.transport
    connected = None if transport is None else transport.get_extra_info("socket")
    return connected is not None and connected.family == socket.AF_UNIX
