"""Of heads that are alike, the last signature that was right.

Requests that a client signs within one second differ in their bodies and signatures alone. All else
that a signature covers is hashed once for them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import NamedTuple

from mq.web.tokens import KnownToken
from mq_sqs.signing.canonical import canonical_texts
from mq_sqs.signing.signatures import CONTENT_HASH, Signature, Signatures

_AUTHORIZATION = "authorization"
_EACH_ITS_OWN = frozenset({"amz-sdk-invocation-id", "amz-sdk-request", "x-amzn-trace-id"})
"""Headers that differ in each request. Where they are signed nothing is hashed for the next one."""
_SIGNATURE_BYTES = 64
_END = b"Signature="


class _Hashed(NamedTuple):
    """A signature that was right. The head's own value at `signature_at` has `prefix` before the
    signature, and its values at `signed_at`, which are signed, are `signed`. `text` has taken in
    the canonical text up to the hash of the body, and `signer` the text to sign up to its hash."""

    signature: Signature
    signature_at: int
    prefix: bytes
    signed_at: Sequence[int]
    signed: Sequence[bytes]
    text: hashlib._Hash
    signer: hmac.HMAC


class LastSigned:
    """The last right signature of heads that are alike byte for byte except for their own
    values."""

    def __init__(self) -> None:
        self._last: _Hashed | None = None

    def keep(self, names: Sequence[str], values: Sequence[bytes], signature: Signature) -> None:
        """Keep a signature that was right, of a head with own values by these names, which are in
        lower case."""
        if _AUTHORIZATION not in names or CONTENT_HASH in signature.head.headers:
            return
        if not _EACH_ITS_OWN.isdisjoint(signature.fields.signed):
            return
        at = names.index(_AUTHORIZATION)
        prefix, text = _split(values[at])
        texts = canonical_texts(signature.head, signature.fields.signed, "")
        if len(texts) > 1 or text != signature.text.encode() or not prefix.endswith(_END):
            return
        signed_at = [at for at, name in enumerate(names) if name in signature.fields.signed]
        self._last = _Hashed(
            signature, at, prefix,
            signed_at, [values[at] for at in signed_at],
            hashlib.sha256(texts[0]), signature.begin(),
        )  # fmt: skip

    def verify(
        self, signatures: Signatures, values: Sequence[bytes], body: bytes
    ) -> KnownToken | None:
        """Return the token that a request is signed with, or None if only `Signatures.read` can
        tell, or the signature is wrong. Raises SQSError if the key is gone."""
        last = self._last
        if last is None:
            return None
        signature, signature_at, prefix, signed_at, signed, text, signer = last
        own_prefix, own_text = _split(values[signature_at])
        if own_prefix != prefix or [values[at] for at in signed_at] != signed:
            return None
        if not signatures.is_current(signature):
            return None
        text = text.copy()
        text.update(hashlib.sha256(body).hexdigest().encode())
        ours = signer.copy()
        ours.update(text.hexdigest().encode())
        is_right = hmac.compare_digest(ours.hexdigest().encode(), own_text)
        return signature.key.token if is_right else None


def _split(authorization: bytes) -> tuple[bytes, bytes]:
    """Return the header Authorization up to the signature, and the signature, if it is the last of
    the header."""
    return authorization[:-_SIGNATURE_BYTES], authorization[-_SIGNATURE_BYTES:]
