"""The text that a signature is made of."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from mq_sqs.signing.canonical import RequestHead, canonical_path, canonical_texts


def texts(query: str, headers: CIMultiDict[str] | None = None, *signed: str) -> list[str]:
    head = RequestHead("GET", "/", query, CIMultiDictProxy(headers or CIMultiDict()))
    return [each.decode() for each in canonical_texts(head, signed, "HASH")]


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("/", "/"),
        ("/0/orders", "/0/orders"),
        ("/0//orders/./x/..", "/0/orders"),
        ("/../..", "/"),
        ("/a/", "/a/"),
        ("/%C3%A4~-_.", "/%25C3%25A4~-_."),
        ("/a:b+c", "/a%3Ab%2Bc"),
    ],
)
def test_a_path_is_made_plain_and_encoded_once_more(path: str, canonical: str) -> None:
    assert canonical_path(path) == canonical


def test_a_query_is_sorted_and_its_signature_left_out() -> None:
    [text] = texts("b=2&X-Amz-Signature=0&a=1&a=0&c")

    assert text.splitlines()[2] == "a=0&a=1&b=2&c="


def test_a_query_that_may_be_written_in_another_way_has_two_texts_of_one_meaning() -> None:
    found = [text.splitlines()[2] for text in texts("b=x+y%2f~&a=%7e")]

    assert found == ["a=%7e&b=x+y%2f~", "a=~&b=x%20y%2F~"]


def test_headers_are_trimmed_and_those_given_twice_joined() -> None:
    headers = CIMultiDict([("Host", "  h "), ("X-Two", "a   b"), ("x-two", "c")])

    [text] = texts("", headers, "host", "x-two")

    assert text == "GET\n/\n\nhost:h\nx-two:a b,c\n\nhost;x-two\nHASH"


def test_nothing_but_the_signature_is_left_out_of_a_query() -> None:
    """A field with an encoded name could be added by anyone on the way."""
    found = [text.splitlines()[2] for text in texts("a=1&X-Amz%2DSignature=2&X-Amz-Signature=0")]

    assert found == ["X-Amz%2DSignature=2&a=1", "X-Amz-Signature=2&a=1"]
