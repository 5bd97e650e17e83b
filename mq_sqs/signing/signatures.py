"""Signatures of version 4: who asks, and that nobody has changed what is asked.

A request brings one in the header `Authorization`, or in the fields of its query ("presigned"). It
covers method, path, query, the signed headers and the body. Any region will do; the service is sqs.
A session token proves nothing here and is not looked at.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from multidict import CIMultiDictProxy, istr

from mq.web.tokens import KnownToken
from mq_sqs.faults import (
    MISSING_AUTHENTICATION_TOKEN,
    REQUEST_EXPIRED,
    SIGNATURE_DOES_NOT_MATCH,
    SQSError,
)
from mq_sqs.signing.canonical import RequestHead, canonical_texts
from mq_sqs.signing.signature_fields import (
    ALGORITHM,
    DATE_FORMAT,
    KNOWN_TEXTS,
    SignatureFields,
    SigningTime,
    fields_of,
    incomplete,
    parts_of_query,
    read_header,
    read_signing_time,
    signing_time_of,
)
from mq_sqs.signing.signing_keys import SigningKey, SigningKeys

MAX_CLOCK_DIFFERENCE_SECONDS = 900
MAX_PRESIGNED_SECONDS = 604_800
CONTENT_HASH = istr("X-Amz-Content-SHA256")

_AUTHORIZATION = istr("Authorization")
_SECONDS = re.compile(r"[0-9]{1,6}")


class Signature(NamedTuple):
    """The signature of a request, in `text`; the key is that of a known token."""

    head: RequestHead
    key: SigningKey
    fields: SignatureFields
    date: SigningTime
    text: str

    def verify(self, body: bytes) -> KnownToken:
        """Return the token that the request is signed with. Raises SQSError."""
        body_hash = hashlib.sha256(body).hexdigest()
        said = self.head.headers.get(CONTENT_HASH)
        if said is not None and said != body_hash:
            raise SQSError(
                SIGNATURE_DOES_NOT_MATCH,
                "header X-Amz-Content-SHA256 is not the SHA-256 of the body; SQS takes no body "
                "that is not signed.",
            )
        signature = self.text.encode("utf-8", "replace")
        is_right = False
        for text in canonical_texts(self.head, self.fields.signed, body_hash):
            ours = self.begin()
            ours.update(hashlib.sha256(text).hexdigest().encode())
            is_right |= hmac.compare_digest(ours.hexdigest().encode(), signature)
        if not is_right:
            raise SQSError(
                SIGNATURE_DOES_NOT_MATCH,
                "The request signature we calculated does not match the signature you provided. "
                f"The secret must be the token of {self.key.token.name}, and nothing on the way "
                "may change the header Host, the path or a signed header.",
            )
        return self.key.token

    def begin(self) -> hmac.HMAC:
        """Return the HMAC of the text to sign up to the hash of the canonical text."""
        scope = self.fields.scope
        return self.key.begin(f"{ALGORITHM}\n{self.date.text}\n{scope}\n".encode(), scope)


class Signatures:
    """Verifies signatures by `keys`. `clock` returns seconds since 1970."""

    def __init__(self, keys: SigningKeys, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def read(self, head: RequestHead) -> Signature:
        """Find out whose signature it is, and check that it is in time, before the body has come.
        Raises SQSError."""
        in_query = parts_of_query(head.query)
        values = head.headers.getall(_AUTHORIZATION, ())
        if len(values) + bool(in_query) > 1:
            raise incomplete("give one signature, in the header Authorization or in the query")
        if values:
            fields, text = read_header(values[0])
            date = signing_time_of(head.headers)
        elif in_query:
            fields, text = fields_of(in_query), in_query["Signature"]
            date = read_signing_time(in_query["Date"])
        else:
            raise SQSError(
                MISSING_AUTHENTICATION_TOKEN,
                "Request is missing Authentication Token. Sign it with Signature Version 4; no "
                "older version is known.",
            )
        if fields.day != date.day:
            raise SQSError(
                SIGNATURE_DOES_NOT_MATCH,
                "the day in Credential is not that of the signature's time.",
            )
        _check_signed(fields.signed, _names_in(head.headers))
        key = self._keys.require(fields.name)
        self._check_time(date, in_query.get("Expires"))
        return Signature(head, key, fields, date, text)

    def is_current(self, signature: Signature) -> bool:
        """Return whether the time and the key of a signature in a header are still good. Raises
        SQSError if the key is gone."""
        is_in_time = abs(self._clock() - signature.date.seconds) <= MAX_CLOCK_DIFFERENCE_SECONDS
        return is_in_time and self._keys.require(signature.fields.name) is signature.key

    def _check_time(self, date: SigningTime, expires: str | None) -> None:
        """Raise SQSError unless now is near enough to `date`, or within the time for which a
        presigned request is valid."""
        now_seconds = self._clock()
        age_seconds = now_seconds - date.seconds
        most = MAX_CLOCK_DIFFERENCE_SECONDS
        if expires is not None:
            if not _SECONDS.fullmatch(expires) or not 1 <= int(expires) <= MAX_PRESIGNED_SECONDS:
                raise incomplete(f"X-Amz-Expires must be 1 to {MAX_PRESIGNED_SECONDS} seconds")
            most = int(expires)
        if -MAX_CLOCK_DIFFERENCE_SECONDS <= age_seconds <= most:
            return
        now = datetime.fromtimestamp(now_seconds, UTC).strftime(DATE_FORMAT)
        if age_seconds > most:
            detail = f"Signature expired: {date.text} is more than {most} seconds before {now}."
        else:
            detail = f"Signature not yet current: {date.text} is later than {now}."
        raise SQSError(REQUEST_EXPIRED, detail)


def _names_in(headers: CIMultiDictProxy[str]) -> tuple[str, ...]:
    """Return the name of each header, as often as it is given."""
    names = tuple(headers)  # Those that are given twice are there once.
    if len(names) == len(headers):
        return names
    return tuple([name for name, _ in headers.items()])


@lru_cache(KNOWN_TEXTS)
def _check_signed(signed: tuple[str, ...], headers: tuple[str, ...]) -> None:
    """Check the signed headers by the names of all that a request has. Those that say what is asked
    must be among them, each of which may be given only once. Raises SQSError."""
    names = [name.lower() for name in headers]
    for name in signed:
        if name not in names:
            raise incomplete(f"the signed header {name[:80]!r} is missing")
    asking = [name for name in names if name.startswith("x-amz-") or name == "host"]
    for name in asking:
        if name not in signed:
            raise SQSError(SIGNATURE_DOES_NOT_MATCH, f"the header {name[:80]!r} must be signed.")
    if len(set(asking)) != len(asking):
        raise incomplete("a header that must be signed is given twice")
