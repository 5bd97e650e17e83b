"""Keys from a token file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.errors import StartRefused
from mq_sqs.faults import INVALID_CLIENT_TOKEN_ID, SQSError
from mq_sqs.signing.signing_keys import SigningKeys

TOKEN = "Hj0vVt9xkq3mP2sYw8LrBg"
HASHED = f"sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}"
AMAZONS = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
"""Of the example in Amazon's documentation of version 4."""


def keys_of(path: Path, text: str) -> SigningKeys:
    path.touch(mode=0o600)
    path.write_text(text)
    return SigningKeys(path)


def test_a_key_signs_as_amazon_documents_it(tmp_path: Path) -> None:
    key = keys_of(tmp_path / "tokens", f"AKIDEXAMPLE read * {AMAZONS}\n").require("AKIDEXAMPLE")
    text = (
        "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n"
        "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
    )

    signatures = {
        key.begin(text.encode(), "20150830/us-east-1/iam/aws4_request").hexdigest()
        for _ in range(2)
    }

    assert signatures == {"5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"}


def test_a_line_with_a_hash_alone_is_warned_of_by_its_number(tmp_path: Path) -> None:
    text = f"# who\n\njanitor read * {HASHED}\ntill write * {AMAZONS}\n"

    with capture_logs() as logs:
        keys = keys_of(tmp_path / "tokens", text)

    assert [(each["line"], each["token"]) for each in logs] == [(3, "janitor")]
    assert keys.require("till").can_sign
    for name, why in (
        ("janitor", "of janitor the token file has only the SHA-256"),
        ("x", r"is invalid\.$"),
    ):
        with pytest.raises(SQSError, match=why) as refused:
            keys.require(name)
        assert refused.value.fault is INVALID_CLIENT_TOKEN_ID


def test_a_file_that_is_out_of_order_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    keys = keys_of(path, f"till write * {TOKEN}\n")
    before = keys.require("till")
    path.write_text("till nonsense * x\n")

    with pytest.raises(StartRefused):
        keys.reload()

    assert keys.require("till") is before
    path.write_text(f"other write * {TOKEN}\n")
    keys.reload()
    assert keys.require("other").can_sign
    with pytest.raises(SQSError):
        keys.require("till")
