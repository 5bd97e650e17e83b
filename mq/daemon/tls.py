"""TLS for the listeners: `--cert` and `--key`, read again on SIGHUP."""

from __future__ import annotations

import os
import re
import ssl
import stat
from pathlib import Path

import structlog

from mq.errors import ExitCode, StartRefused

log = structlog.get_logger(__name__)

_CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_MOST_BYTES = 1 << 20
_MISMATCHES = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""What OpenSSL says of a key that belongs to another certificate; the last if it is of another
kind."""


class Certificate:
    """A certificate with its chain, and its key. Raises StartRefused if they cannot be used."""

    def __init__(self, cert: Path, key: Path) -> None:
        self._cert = cert
        self._key = key
        self._current = _load(cert, key)

    def current(self) -> ssl.SSLContext:
        """Return what a handshake that begins now uses: the files as they were loaded last."""
        return self._current

    def reload(self) -> None:
        """Read both files again, for new connections. If this raises StartRefused, the old ones
        stay in use."""
        self._current = _load(self._cert, self._key)


def _load(cert: Path, key: Path) -> ssl.SSLContext:
    """Return a context for TLS 1.2 and newer, with the ciphers that this Python considers
    strong."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        for path, what, begin in (cert, "certificate", _CERTIFICATE), (key, "private key", _KEY):
            # OpenSSL does not say which of the two files is wrong, and would wait for a pipe.
            if not stat.S_ISREG(path.stat().st_mode):
                raise ValueError(f"{path} is not a regular file")
            with path.open("rb") as file:
                if not begin.search(file.read(_MOST_BYTES)):
                    raise ValueError(f"{path} has no {what} in PEM")
        context.load_cert_chain(cert, key, _no_password)
        if os.stat(key).st_mode & 0o007:
            log.warning("key may be read by others; chmod 600", key=str(key))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        if reason in _MISMATCHES:
            reason = "the key is not that of the certificate"
        raise StartRefused(
            ExitCode.USAGE,
            f"certificate {cert} with key {key}: {reason}; give a PEM file with the certificate "
            "and its chain, and one with its key, without a password",
        ) from None
    return context


def _no_password() -> str:
    """Refuse a key with a password. OpenSSL would ask for it on the terminal."""
    raise ValueError("the key has a password")
