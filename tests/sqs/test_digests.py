"""Digests are those of hashlib, whichever makes them."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_sqs.digests import begin_sha256, md5_in_hex, sha256_in_hex

TEXTS = st.binary(max_size=200)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 255, 256, 257, 2047, 2048, 2049, 100_000])
def test_a_digest_is_the_same_for_short_and_long_texts(length: int) -> None:
    data = bytes(at % 251 for at in range(length))

    assert md5_in_hex(data) == hashlib.md5(data).hexdigest()
    assert sha256_in_hex(data) == hashlib.sha256(data).hexdigest()


@given(TEXTS, TEXTS)
def test_a_sha256_goes_on(first: bytes, last: bytes) -> None:
    begun = begin_sha256(first)
    begun.update(last)

    assert begun.hexdigest() == hashlib.sha256(first + last).hexdigest()
