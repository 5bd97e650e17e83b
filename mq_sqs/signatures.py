"""Signatures of version 4: who asks, and that nobody has changed what is asked.

A request brings one in the header `Authorization`, or in the fields of its query ("presigned"). It
covers method, path, query, the signed headers and the body. Any region will do; the service is sqs.
A session token proves nothing here and is not looked at.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from multidict import CIMultiDictProxy, istr

from mq.web.tokens import KnownToken
from mq_sqs.canonical import SIGNATURE_FIELD, RequestHead, canonical_texts
from mq_sqs.digests import sha256_in_hex
from mq_sqs.faults import (
    INCOMPLETE_SIGNATURE,
    MISSING_AUTHENTICATION_TOKEN,
    REQUEST_EXPIRED,
    SIGNATURE_DOES_NOT_MATCH,
    SQSError,
)
from mq_sqs.signing_keys import SigningKey, SigningKeys

ALGORITHM = "AWS4-HMAC-SHA256"
MAX_CLOCK_DIFFERENCE_SECONDS = 900
MAX_PRESIGNED_SECONDS = 604_800
CONTENT_HASH = istr("X-Amz-Content-SHA256")

_SERVICE = "sqs"
_AUTHORIZATION = istr("Authorization")
_X_AMZ_DATE = istr("X-Amz-Date")
_KNOWN_TEXTS = 64
"""Times, claims and lists of headers that are not read again: those of many requests are the
same."""

_DATE = "%Y%m%dT%H%M%SZ"
_DATE_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SECONDS = re.compile(r"[0-9]{1,6}")
_SIGNATURE = "Signature="
_LACKING = "header Authorization must have Credential, SignedHeaders and Signature"
_CLAIMED = frozenset({"Credential", "SignedHeaders", "Signature"})
_QUERY_PARTS = {
    "X-Amz-Algorithm": "Algorithm",
    "X-Amz-Credential": "Credential",
    "X-Amz-SignedHeaders": "SignedHeaders",
    "X-Amz-Date": "Date",
    "X-Amz-Expires": "Expires",
    SIGNATURE_FIELD: "Signature",
}


class _Claim(NamedTuple):
    """All that a signature says except for its time and itself: the name of the key, the day that
    the key was derived for, the names of the signed headers in lower case. `scope` is a part of the
    text to sign."""

    name: str
    day: str
    scope: str
    signed: tuple[str, ...]


class _Moment(NamedTuple):
    """The time of a signature: in seconds since 1970, its day, and as the text to sign has it."""

    seconds: float
    day: str
    text: str


class Signature(NamedTuple):
    """The signature of a request, in `text`; the key is that of a known token."""

    head: RequestHead
    key: SigningKey
    claim: _Claim
    date: _Moment
    text: str

    def verify(self, body: bytes) -> KnownToken:
        """Return the token that the request is signed with. Raises SQSError."""
        body_hash = sha256_in_hex(body)
        said = self.head.headers.get(CONTENT_HASH)
        if said is not None and said != body_hash:
            raise SQSError(
                SIGNATURE_DOES_NOT_MATCH,
                "header X-Amz-Content-SHA256 is not the SHA-256 of the body; SQS takes no body "
                "that is not signed.",
            )
        signature = self.text.encode("utf-8", "replace")
        is_right = False
        for text in canonical_texts(self.head, self.claim.signed, body_hash):
            ours = self.begin()
            ours.update(sha256_in_hex(text).encode())
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
        scope = self.claim.scope
        return self.key.begin(f"{ALGORITHM}\n{self.date.text}\n{scope}\n".encode(), scope)


class Signatures:
    """Verifies signatures by `keys`. `clock` returns seconds since 1970."""

    def __init__(self, keys: SigningKeys, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def read(self, head: RequestHead) -> Signature:
        """Find out whose signature it is, and check that it is in time, before the body has come.
        Raises SQSError."""
        in_query = _parts_of_query(head.query)
        values = head.headers.getall(_AUTHORIZATION, ())
        if len(values) + bool(in_query) > 1:
            raise _incomplete("give one signature, in the header Authorization or in the query")
        if values:
            claim, text = _read_header(values[0])
            date = _date_of(head.headers)
        elif in_query:
            claim, text = _claim_of(in_query), in_query["Signature"]
            date = _read_date(in_query["Date"])
        else:
            raise SQSError(MISSING_AUTHENTICATION_TOKEN, "Request is missing Authentication Token")
        if claim.day != date.day:
            raise SQSError(
                SIGNATURE_DOES_NOT_MATCH,
                "the day in Credential is not that of the signature's time.",
            )
        _check_signed(claim.signed, _names_in(head.headers))
        key = self._keys.require(claim.name)
        self._check_time(date, in_query.get("Expires"))
        return Signature(head, key, claim, date, text)

    def is_current(self, signature: Signature) -> bool:
        """Return whether the time and the key of a signature in a header are still good. Raises
        SQSError if the key is gone."""
        is_in_time = abs(self._clock() - signature.date.seconds) <= MAX_CLOCK_DIFFERENCE_SECONDS
        return is_in_time and self._keys.require(signature.claim.name) is signature.key

    def _check_time(self, date: _Moment, expires: str | None) -> None:
        """Raise SQSError unless now is near enough to `date`, or within the time for which a
        presigned request is valid."""
        now_seconds = self._clock()
        age_seconds = now_seconds - date.seconds
        most = MAX_CLOCK_DIFFERENCE_SECONDS
        if expires is not None:
            if not _SECONDS.fullmatch(expires) or not 1 <= int(expires) <= MAX_PRESIGNED_SECONDS:
                raise _incomplete(f"X-Amz-Expires must be 1 to {MAX_PRESIGNED_SECONDS} seconds")
            most = int(expires)
        if -MAX_CLOCK_DIFFERENCE_SECONDS <= age_seconds <= most:
            return
        now = datetime.fromtimestamp(now_seconds, UTC).strftime(_DATE)
        if age_seconds > most:
            detail = f"Signature expired: {date.text} is more than {most} seconds before {now}."
        else:
            detail = f"Signature not yet current: {date.text} is later than {now}."
        raise SQSError(REQUEST_EXPIRED, detail)


def _read_header(value: str) -> tuple[_Claim, str]:
    """Return the claim in a header Authorization, and the signature."""
    before, found, behind = value.partition(_SIGNATURE)
    text, comma, after = behind.partition(",")
    if not found or _SIGNATURE in after:
        raise _incomplete(_LACKING)
    return _read_claim(before, comma + after), text.rstrip()


@lru_cache(_KNOWN_TEXTS)
def _read_claim(before: str, after: str) -> _Claim:
    """Read what comes before a signature, and what comes after it. Raises SQSError."""
    algorithm, _, rest = f"{before}{_SIGNATURE}{after}".strip().partition(" ")
    if algorithm != ALGORITHM:
        raise _incomplete(f"header Authorization: only {ALGORITHM} is known")
    texts = [each.strip() for each in rest.split(",")]
    parts = dict(each.partition("=")[::2] for each in texts)
    if parts.keys() != _CLAIMED or len(texts) != len(parts):
        raise _incomplete(_LACKING)
    return _claim_of(parts)


def _claim_of(parts: Mapping[str, str]) -> _Claim:
    """Return what the parts of a signature say. Raises SQSError."""
    text = parts["Credential"]
    credential = text.split("/")
    if len(credential) != 5 or credential[4] != "aws4_request" or not text.isascii():
        raise _incomplete("Credential must be KEY/DAY/REGION/sqs/aws4_request")
    name, *scope = credential
    if scope[2] != _SERVICE:
        raise SQSError(
            SIGNATURE_DOES_NOT_MATCH, "Credential should be scoped to correct service: 'sqs'."
        )
    return _Claim(name, scope[0], "/".join(scope), _split_signed(parts["SignedHeaders"]))


def _parts_of_query(query: str) -> dict[str, str]:
    """Return the parts of a signature in a query, and none if the query is not signed."""
    if "X-Amz-" not in query:
        return {}
    parts: dict[str, str] = {}
    for each in query.split("&"):
        name, _, value = each.partition("=")
        part = _QUERY_PARTS.get(name)
        if part is None:
            continue
        if part in parts:
            raise _incomplete(f"parameter {name} is given twice")
        parts[part] = unquote(value)
    if not parts:
        return {}
    missing = [name for name, part in _QUERY_PARTS.items() if part not in parts]
    if missing:
        raise _incomplete(f"the query must have {missing[0]}")
    if parts["Algorithm"] != ALGORITHM:
        raise _incomplete(f"X-Amz-Algorithm: only {ALGORITHM} is known")
    return parts


def _date_of(headers: CIMultiDictProxy[str]) -> _Moment:
    """Return the time in `X-Amz-Date`, or else in `Date`."""
    date = headers.get(_X_AMZ_DATE)
    if date is not None:
        return _read_date(date)
    try:
        (text,) = headers.getall("Date", [])
        found = parsedate_to_datetime(text)
        return _moment_of(found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC))
    except (ValueError, TypeError, OverflowError):
        raise _incomplete("give the time of the signature as the header X-Amz-Date") from None


@lru_cache(_KNOWN_TEXTS)
def _read_date(text: str) -> _Moment:
    try:
        if not _DATE_FORM.fullmatch(text):
            raise ValueError
        return _moment_of(datetime.strptime(text, _DATE).replace(tzinfo=UTC))
    except ValueError:
        raise _incomplete("X-Amz-Date must be like 20261122T133000Z") from None


def _moment_of(found: datetime) -> _Moment:
    text = found.strftime(_DATE)
    return _Moment(found.timestamp(), text.partition("T")[0], text)


def _split_signed(text: str) -> tuple[str, ...]:
    signed = tuple(text.split(";"))
    if len(set(signed)) != len(signed) or text != text.lower():
        raise _incomplete("SignedHeaders must be names in lower case, each given once")
    if "host" not in signed:
        raise SQSError(SIGNATURE_DOES_NOT_MATCH, "the header 'host' must be signed.")
    return signed


def _names_in(headers: CIMultiDictProxy[str]) -> tuple[str, ...]:
    """Return the name of each header, as often as it is given."""
    names = tuple(headers)  # Those that are given twice are there once.
    if len(names) == len(headers):
        return names
    return tuple([name for name, _ in headers.items()])


@lru_cache(_KNOWN_TEXTS)
def _check_signed(signed: tuple[str, ...], headers: tuple[str, ...]) -> None:
    """Check the signed headers by the names of all that a request has. Those that say what is asked
    must be among them, each of which may be given only once. Raises SQSError."""
    names = [name.lower() for name in headers]
    for name in signed:
        if name not in names:
            raise _incomplete(f"the signed header {name[:80]!r} is missing")
    asking = [name for name in names if name.startswith("x-amz-") or name == "host"]
    for name in asking:
        if name not in signed:
            raise SQSError(SIGNATURE_DOES_NOT_MATCH, f"the header {name[:80]!r} must be signed.")
    if len(set(asking)) != len(asking):
        raise _incomplete("a header that must be signed is given twice")


def _incomplete(why: str) -> SQSError:
    return SQSError(INCOMPLETE_SIGNATURE, f"{why}.")
