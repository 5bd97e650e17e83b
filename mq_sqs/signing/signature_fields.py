"""What a request says of its signature: in the header `Authorization`, or in the fields of its
query; and when it was signed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from multidict import CIMultiDictProxy, istr

from mq_sqs.faults import INCOMPLETE_SIGNATURE, SIGNATURE_DOES_NOT_MATCH, SQSError
from mq_sqs.signing.canonical import SIGNATURE_FIELD

ALGORITHM = "AWS4-HMAC-SHA256"
DATE_FORMAT = "%Y%m%dT%H%M%SZ"
KNOWN_TEXTS = 64
"""Times, fields and lists of headers that are not read again: those of many requests are the
same."""

_SERVICE = "sqs"
_X_AMZ_DATE = istr("X-Amz-Date")
_DATE_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE = "Signature="
_LACKING = "header Authorization must have Credential, SignedHeaders and Signature"
_IN_HEADER = frozenset({"Credential", "SignedHeaders", "Signature"})
_QUERY_PARTS = {
    "X-Amz-Algorithm": "Algorithm",
    "X-Amz-Credential": "Credential",
    "X-Amz-SignedHeaders": "SignedHeaders",
    "X-Amz-Date": "Date",
    "X-Amz-Expires": "Expires",
    SIGNATURE_FIELD: "Signature",
}


class SignatureFields(NamedTuple):
    """What comes with a signature, except for its time: the name of the key, the day that the key
    was derived for, the names of the signed headers in lower case. `scope` is a part of the text to
    sign."""

    name: str
    day: str
    scope: str
    signed: tuple[str, ...]


class SigningTime(NamedTuple):
    """The time of a signature: in seconds since 1970, its day, and as the text to sign has it."""

    seconds: float
    day: str
    text: str


def read_header(value: str) -> tuple[SignatureFields, str]:
    """Return the fields of a header Authorization, and the signature. Raises SQSError."""
    before, found, behind = value.partition(_SIGNATURE)
    text, comma, after = behind.partition(",")
    if not found or _SIGNATURE in after:
        raise incomplete(_LACKING)
    return _read_fields(before, comma + after), text.rstrip()


@lru_cache(KNOWN_TEXTS)
def _read_fields(before: str, after: str) -> SignatureFields:
    """Read what comes before a signature, and what comes after it. Raises SQSError."""
    algorithm, _, rest = f"{before}{_SIGNATURE}{after}".strip().partition(" ")
    if algorithm != ALGORITHM:
        raise incomplete(f"header Authorization: only {ALGORITHM} is known")
    texts = [each.strip() for each in rest.split(",")]
    parts = dict(each.partition("=")[::2] for each in texts)
    if parts.keys() != _IN_HEADER or len(texts) != len(parts):
        raise incomplete(_LACKING)
    return fields_of(parts)


def fields_of(parts: Mapping[str, str]) -> SignatureFields:
    """Return what the parts of a signature say. Raises SQSError."""
    text = parts["Credential"]
    credential = text.split("/")
    if len(credential) != 5 or credential[4] != "aws4_request" or not text.isascii():
        raise incomplete("Credential must be KEY/DAY/REGION/sqs/aws4_request")
    name, *scope = credential
    if scope[2] != _SERVICE:
        raise SQSError(
            SIGNATURE_DOES_NOT_MATCH, "Credential should be scoped to correct service: 'sqs'."
        )
    return SignatureFields(name, scope[0], "/".join(scope), _split_signed(parts["SignedHeaders"]))


def parts_of_query(query: str) -> dict[str, str]:
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
            raise incomplete(f"parameter {name} is given twice")
        parts[part] = unquote(value)
    if not parts:
        return {}
    missing = [name for name, part in _QUERY_PARTS.items() if part not in parts]
    if missing:
        raise incomplete(f"the query must have {missing[0]}")
    if parts["Algorithm"] != ALGORITHM:
        raise incomplete(f"X-Amz-Algorithm: only {ALGORITHM} is known")
    return parts


def signing_time_of(headers: CIMultiDictProxy[str]) -> SigningTime:
    """Return the time in `X-Amz-Date`, or else in `Date`. Raises SQSError."""
    date = headers.get(_X_AMZ_DATE)
    if date is not None:
        return read_signing_time(date)
    try:
        (text,) = headers.getall("Date", [])
        found = parsedate_to_datetime(text)
        return _signing_time(found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC))
    except (ValueError, TypeError, OverflowError):
        raise incomplete("give the time of the signature as the header X-Amz-Date") from None


@lru_cache(KNOWN_TEXTS)
def read_signing_time(text: str) -> SigningTime:
    """Read a time as `X-Amz-Date` has it. Raises SQSError."""
    try:
        if not _DATE_FORM.fullmatch(text):
            raise ValueError
        return _signing_time(datetime.strptime(text, DATE_FORMAT).replace(tzinfo=UTC))
    except ValueError:
        raise incomplete("X-Amz-Date must be like 20261122T133000Z") from None


def _signing_time(found: datetime) -> SigningTime:
    text = found.strftime(DATE_FORMAT)
    return SigningTime(found.timestamp(), text.partition("T")[0], text)


def _split_signed(text: str) -> tuple[str, ...]:
    signed = tuple(text.split(";"))
    if len(set(signed)) != len(signed) or text != text.lower():
        raise incomplete("SignedHeaders must be names in lower case, each given once")
    if "host" not in signed:
        raise SQSError(SIGNATURE_DOES_NOT_MATCH, "the header 'host' must be signed.")
    return signed


def incomplete(why: str) -> SQSError:
    return SQSError(INCOMPLETE_SIGNATURE, f"{why}.")
