"""The text of a request that a signature of version 4 is made of.

Signers write the same query in two ways: some take it as it is in the URL, some decode it and
encode it again. Whichever of the two a text is, it has one meaning: that of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from multidict import CIMultiDictProxy

SIGNATURE_FIELD = "X-Amz-Signature"
"""The field of a presigned query that cannot be signed itself."""

_UNRESERVED = "-_.~"
_KNOWN_PATHS = 64
_KNOWN_HEADERS = 64

_Values = tuple[tuple[str, ...], ...]
"""The values of some headers, for each as often as it is given."""


class RequestHead(NamedTuple):
    """A request without its body. `path` is without the query, both still percent-encoded."""

    method: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]


def canonical_texts(head: RequestHead, signed: tuple[str, ...], body_hash: str) -> list[bytes]:
    """Return the texts that a signer may have signed. `signed` are the names of headers that the
    request has, in lower case."""
    start = f"{head.method}\n{canonical_path(head.path)}\n"
    end = _headers_part(signed, _values_of(head.headers, signed)) + body_hash
    if not head.query:
        return [f"{start}{end}".encode("utf-8", "surrogateescape")]
    # The two are most often the same.
    queries = dict.fromkeys([_query_as_it_is(head.query), _query_encoded_again(head.query)])
    return [f"{start}{query}{end}".encode("utf-8", "surrogateescape") for query in queries]


@lru_cache(_KNOWN_PATHS)
def canonical_path(path: str) -> str:
    """Return the path without empty segments and dots, and encoded once more, as for every service
    but S3."""
    if path == "/":
        return path
    segments: list[str] = []
    for each in path.split("/"):
        if each == "..":
            del segments[-1:]
        elif each and each != ".":
            segments.append(each)
    end = "/" if path.endswith("/") and segments else ""
    return quote(f"/{'/'.join(segments)}{end}", safe="/~")


def _values_of(headers: CIMultiDictProxy[str], names: tuple[str, ...]) -> _Values:
    return tuple([tuple(headers.getall(name)) for name in names])


@lru_cache(_KNOWN_HEADERS)
def _headers_part(signed: tuple[str, ...], values: _Values) -> str:
    """Return the part after the query, which requests of one second have in common. It has all
    values of a header that is given several times."""
    trimmed = [",".join([" ".join(each.split()) for each in several]) for several in values]
    lines = [f"{name}:{value}\n" for name, value in zip(signed, trimmed, strict=True)]
    return f"\n{''.join(lines)}\n{';'.join(signed)}\n"


def _query_as_it_is(query: str) -> str:
    pairs = (each.partition("=")[::2] for each in query.split("&"))
    return _join(pair for pair in pairs if pair[0] != SIGNATURE_FIELD)


def _query_encoded_again(query: str) -> str:
    pairs = (each.partition("=")[::2] for each in query.split("&") if each)
    return _join(
        (_encode_again(name), _encode_again(value))
        for name, value in pairs
        if name != SIGNATURE_FIELD
    )


def _join(pairs: Iterator[tuple[str, str]]) -> str:
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _encode_again(text: str) -> str:
    """Decode and encode a text again. A plus is a space, as it is where the fields are read."""
    return quote(unquote_to_bytes(text.replace("+", " ")), safe=_UNRESERVED)
