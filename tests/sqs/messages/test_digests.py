"""The MD5 is that of hashlib, whichever makes it."""

from __future__ import annotations

import hashlib

import pytest

from mq_sqs.messages.digests import md5_in_hex


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 255, 256, 257, 2047, 2048, 2049, 100_000])
def test_it_is_the_same_for_short_and_long_texts(length: int) -> None:
    data = bytes(at % 251 for at in range(length))

    assert md5_in_hex(data) == hashlib.md5(data).hexdigest()
