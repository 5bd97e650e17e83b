"""The MD5 of a text, by which clients of SQS find out whether it came whole.

OpenSSL looks for a provider at each call, which takes longer than hashing the few hundred bytes of
most requests. Python's own MD5 does without that, but not every distribution builds it. That of
OpenSSL is faster for long texts, and lets other threads work meanwhile.
"""

from __future__ import annotations

import hashlib
from importlib import import_module

_SHORT_BYTES = 2048


def _openssl_md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)


try:
    _own_md5 = import_module("_md5").md5
except ImportError:
    _own_md5 = _openssl_md5


def md5_in_hex(data: bytes) -> str:
    make = _own_md5 if len(data) < _SHORT_BYTES else _openssl_md5
    found: str = make(data).hexdigest()
    return found
