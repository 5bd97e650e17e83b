"""Digests of short texts.

OpenSSL looks for a provider at each call, which takes longer than hashing the few hundred bytes of
most requests. Python's own digests do without that, but not every distribution builds them. Those
of OpenSSL are faster for long texts, and let other threads work meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module

_MakeHash = Callable[[bytes], "hashlib._Hash"]

_SHORT_FOR_MD5_BYTES, _SHORT_FOR_SHA256_BYTES = 2048, 256


def _openssl_md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)


def _python_digest(module: str, name: str, otherwise: _MakeHash) -> _MakeHash:
    """Return a digest of Python's own, or the other one if there is none."""
    try:
        found: _MakeHash = getattr(import_module(module), name)
    except ImportError:
        return otherwise
    return found


_own_md5 = _python_digest("_md5", "md5", _openssl_md5)
_own_sha256 = _python_digest("_sha256", "sha256", _python_digest("_sha2", "sha256", hashlib.sha256))


def md5_in_hex(data: bytes) -> str:
    make = _own_md5 if len(data) < _SHORT_FOR_MD5_BYTES else _openssl_md5
    return make(data).hexdigest()


def sha256_in_hex(data: bytes) -> str:
    make = _own_sha256 if len(data) < _SHORT_FOR_SHA256_BYTES else hashlib.sha256
    return make(data).hexdigest()


def begin_sha256(data: bytes) -> hashlib._Hash:
    """Return the SHA-256 of a text that goes on."""
    return _own_sha256(data)
