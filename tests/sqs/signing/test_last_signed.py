"""What the last right signature of a head spares, and what it lets nobody do."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from multidict import CIMultiDictProxy

from mq_sqs.faults import SQSError
from mq_sqs.signing.canonical import RequestHead
from mq_sqs.signing.last_signed import LastSigned
from mq_sqs.signing.signatures import Signatures
from mq_sqs.signing.signing_keys import SigningKeys
from tests.support.signers import SEND, TOKEN, Sent, sign

OWN = ("authorization", "x-amz-date", "content-length", "amz-sdk-invocation-id")


class SignedHeads:
    """Requests with the same head but for `OWN`, as a gateway verifies them, at a time of its
    own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(mode=0o600)
        path.write_text(f"till write * {TOKEN}\n")
        self.keys = SigningKeys(path)
        self.later_seconds = 0.0
        self.signatures = Signatures(self.keys, lambda: time.time() + self.later_seconds)
        self.last = LastSigned()

    def keep(self, sent: Sent) -> None:
        path, _, query = sent.target.partition("?")
        signature = self.signatures.read(
            RequestHead(sent.method, path, query, CIMultiDictProxy(sent.headers))
        )
        assert signature.verify(sent.body).name == "till"
        self.last.keep(OWN, values_of(sent), signature)

    def knows(self, sent: Sent, body: bytes | None = None) -> bool:
        body = sent.body if body is None else body
        token = self.last.verify(self.signatures, values_of(sent), body)
        return token is not None and token.name == "till"


def values_of(sent: Sent) -> Sequence[bytes]:
    return [sent.headers.get(name, "").encode() for name in OWN]


def signed(body: bytes = b"{}") -> Sent:
    return sign(headers=SEND, body=body)


@pytest.fixture
def heads(tmp_path: Path) -> SignedHeads:
    return SignedHeads(tmp_path / "tokens")


def of_one_second() -> tuple[Sent, Sent]:
    """Two requests with different bodies that are signed within one second."""
    while True:
        both = signed(), signed(b'{"a":1}')
        if both[0].headers["X-Amz-Date"] == both[1].headers["X-Amz-Date"]:
            return both


def test_another_body_of_the_same_second_is_known(heads: SignedHeads) -> None:
    first, second = of_one_second()
    assert not heads.knows(first)
    heads.keep(first)

    assert heads.knows(first)
    assert heads.knows(second)
    assert heads.knows(second.with_headers(Amz_Sdk_Invocation_Id="2"))


@pytest.mark.parametrize(
    "changes",
    [
        {"authorization": "0"},
        {"authorization": ""},
        {"x_amz_date": "20261122T133000Z"},
    ],
)
def test_what_is_changed_is_not_known(heads: SignedHeads, changes: dict[str, str]) -> None:
    sent = signed()
    heads.keep(sent)

    assert not heads.knows(sent.with_headers(**changes))
    assert not heads.knows(sent, b'{"b":1}')


@pytest.mark.parametrize("at", [0, 30, 60, -65, -64, -1])
def test_no_character_of_a_header_authorization_may_change(heads: SignedHeads, at: int) -> None:
    sent = signed()
    heads.keep(sent)
    text = sent.headers["Authorization"]
    at %= len(text)
    changed = text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :]

    assert not heads.knows(sent.with_headers(authorization=changed))
    assert not heads.knows(sent.with_headers(authorization=f"{text},"))
    assert not heads.knows(sent.with_headers(authorization=text[:-1]))
    assert heads.knows(sent)


def test_a_head_with_a_signed_number_of_its_own_is_not_kept(heads: SignedHeads) -> None:
    sent = sign(headers={**SEND, "Amz-Sdk-Invocation-Id": "1"})
    heads.keep(sent)

    assert not heads.knows(sent)


@pytest.mark.parametrize("later_seconds", [-910.0, 910.0])
def test_a_signature_that_is_out_of_time_is_not_known(
    heads: SignedHeads, later_seconds: float
) -> None:
    sent = signed()
    heads.keep(sent)
    heads.later_seconds = later_seconds

    assert not heads.knows(sent)


def test_a_key_that_is_read_again_counts_at_once(heads: SignedHeads) -> None:
    sent = signed()
    heads.keep(sent)

    heads.path.write_text("till write * another-token-than-before\n")
    heads.keys.reload()
    assert not heads.knows(sent)

    heads.path.write_text("other write * another-token-than-before\n")
    heads.keys.reload()
    with pytest.raises(SQSError):
        heads.knows(sent)


def test_a_head_with_a_hash_of_the_body_is_not_kept(heads: SignedHeads) -> None:
    body_hash = hashlib.sha256(b"{}").hexdigest()
    sent = sign(headers={**SEND, "X-Amz-Content-SHA256": body_hash})
    heads.keep(sent)

    assert not heads.knows(sent)


def test_a_query_that_may_be_signed_in_two_ways_is_not_kept(heads: SignedHeads) -> None:
    sent = sign(target="/?a=b+c")
    heads.keep(sent)

    assert not heads.knows(sent)
