"""Signatures, with botocore's signer as the truth, and those who change what was signed."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from mq_sqs.faults import SQSError
from mq_sqs.signing.canonical import RequestHead
from mq_sqs.signing.signatures import Signatures
from mq_sqs.signing.signing_keys import SigningKeys
from tests.support.signers import KEY, SEND, TOKEN, Sent, presigned, sign
from tests.support.token_files import make_token_file

HASH = "sha256:" + "9f" * 32


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> SigningKeys:
    lines = f"till write * {TOKEN}", f"hashed write * {HASH}"
    return SigningKeys(make_token_file(tmp_path_factory.mktemp("signatures"), *lines))


@pytest.fixture(scope="module")
def verify(keys: SigningKeys) -> Callable[..., str]:
    """The name of the token that a request is signed with, some time after it was."""

    def tell(sent: Sent, later_seconds: float = 0.0) -> str:
        path, _, query = sent.target.partition("?")
        head = RequestHead(sent.method, path, query, CIMultiDictProxy(sent.headers))
        signatures = Signatures(keys, lambda: time.time() + later_seconds)
        return signatures.read(head).verify(sent.body).name

    return tell


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(SQSError) as caught:
        act()
    return caught.value.fault.code


# What botocore signs is right

SEGMENTS = st.text("abc.-_~ä%:+@ =/", max_size=12).map(lambda text: re.sub("%", "%25", text))
PATHS = SEGMENTS.map(lambda text: "/" + text.replace("ä", "%C3%A4").replace(" ", "%20"))
FIELDS = st.dictionaries(
    st.text("abXY-_.~ä+ /=&%", min_size=1, max_size=6), st.text("ab+ ä/=&%~*'()", max_size=8),
    max_size=4,
)  # fmt: skip
VALUES = st.text('abc \t,;=ä"', max_size=12).map(lambda text: f"a{text}b")
HEADERS = st.dictionaries(
    st.sampled_from(["X-Amz-Meta", "X-Amz-A", "x-b", "Amz-Sdk-Invocation-Id"]), VALUES
)


@settings(max_examples=100, deadline=None)
@given(PATHS, FIELDS, HEADERS, st.binary(max_size=40))
def test_whatever_botocore_signs_is_verified(
    verify: Callable[..., str],
    path: str,
    fields: dict[str, str],
    headers: dict[str, str],
    body: bytes,
) -> None:
    method = "POST" if body else "GET"

    assert verify(sign(method, path, {**SEND, **headers}, body, params=fields)) == "till"


@settings(max_examples=100, deadline=None)
@given(PATHS, st.lists(st.sampled_from(["a=1", "b=%20", "b=+", "a=%2f", "c", "A=~"]), max_size=4))
def test_whatever_botocore_signs_in_a_url_is_verified(
    verify: Callable[..., str], path: str, pairs: list[str]
) -> None:
    target = path + ("?" + "&".join(pairs) if pairs else "")

    assert verify(sign(target=target)) == "till"
    assert verify(presigned(target)) == "till"


def test_a_session_token_changes_nothing(verify: Callable[..., str]) -> None:
    temporary = Credentials("till", TOKEN, "a session")

    assert verify(sign(credentials=temporary)) == "till"
    assert verify(sign("GET", "/?a=b", {}, b"", by=SigV4QueryAuth, credentials=temporary)) == "till"


def test_the_time_may_be_in_the_header_date(verify: Callable[..., str]) -> None:
    assert verify(sign(headers={**SEND, "Date": formatdate()})) == "till"


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1", "mars"])
def test_any_region_will_do(verify: Callable[..., str], region: str) -> None:
    assert verify(sign(scope=("sqs", region))) == "till"


def test_the_parts_of_a_signature_may_come_in_any_order(verify: Callable[..., str]) -> None:
    sent = sign()
    algorithm, _, rest = sent.headers["Authorization"].partition(" ")

    for parts in itertools.permutations(rest.split(", ")):
        for comma in (",", ", ", " ,  "):
            text = f" {algorithm} {comma.join(parts)} "
            assert verify(sent.with_headers(Authorization=text)) == "till"


# Changed requests are refused


def resigned(sent: Sent, pattern: str, replacement: str) -> Sent:
    """Return a request with another Authorization."""
    text = sent.headers["Authorization"]
    changed = re.sub(pattern, replacement, text)
    assert changed != text
    return sent.with_headers(Authorization=changed)


CHANGES: list[tuple[str, Callable[[Sent], Sent], str]] = [
    ("body", lambda sent: sent._replace(body=b"{ }"), "SignatureDoesNotMatch"),
    ("method", lambda sent: sent._replace(method="GET"), "SignatureDoesNotMatch"),
    ("path", lambda sent: sent._replace(target="/0/other?a=1"), "SignatureDoesNotMatch"),
    ("query", lambda sent: sent._replace(target="/0/q?a=2"), "SignatureDoesNotMatch"),
    ("more query", lambda sent: sent._replace(target="/0/q?a=1&b=1"), "SignatureDoesNotMatch"),
    ("operation", lambda sent: sent.with_headers(X_Amz_Target="AmazonSQS.DeleteQueue"),
     "SignatureDoesNotMatch"),
    ("host", lambda sent: sent.with_headers(Host="other:9324"), "SignatureDoesNotMatch"),
    ("more headers", lambda sent: sent.with_headers(X_Amz_More="1"), "SignatureDoesNotMatch"),
    ("no such header", lambda sent: sent.with_headers(X_Amz_Target=None), "IncompleteSignature"),
    ("unsigned operation", lambda sent: resigned(sent, ";x-amz-target", ""),
     "SignatureDoesNotMatch"),
    ("unsigned date", lambda sent: resigned(sent, ";x-amz-date", ""), "SignatureDoesNotMatch"),
    ("unsigned host", lambda sent: resigned(sent, "host;", ""), "SignatureDoesNotMatch"),
    ("region", lambda sent: resigned(sent, "us-east-1", "eu-west-1"), "SignatureDoesNotMatch"),
    ("odd region", lambda sent: resigned(sent, "us-east-1", "\udcff"), "IncompleteSignature"),
    ("service", lambda sent: resigned(sent, "/sqs/", "/s3/"), "SignatureDoesNotMatch"),
    ("day", lambda sent: resigned(sent, r"/\d{8}/", "/20150830/"), "SignatureDoesNotMatch"),
    ("key", lambda sent: resigned(sent, "=till/", "=nobody/"), "InvalidClientTokenId"),
    ("a key with a hash alone", lambda sent: resigned(sent, "=till/", "=hashed/"),
     "InvalidClientTokenId"),
    ("signature", lambda sent: resigned(sent, "Signature=.*", "Signature=" + "0" * 64),
     "SignatureDoesNotMatch"),
    ("no signature", lambda sent: resigned(sent, "Signature=.*", "Signature="),
     "SignatureDoesNotMatch"),
    ("signature of any characters", lambda sent: resigned(sent, "Signature=.*", "Signature=\u00e4"),
     "SignatureDoesNotMatch"),
    ("part of it", lambda sent: resigned(sent, ", Signature=.*", ""), "IncompleteSignature"),
    ("signature in another part", lambda sent: resigned(sent, ", Signature=", "Signature="),
     "IncompleteSignature"),
    ("part of another name", lambda sent: resigned(sent, ", Signature=", ", XSignature="),
     "IncompleteSignature"),
    ("more behind it", lambda sent: resigned(sent, "$", " 0"), "SignatureDoesNotMatch"),
    ("another part", lambda sent: resigned(sent, "$", ", More=0"), "IncompleteSignature"),
    ("an empty part", lambda sent: resigned(sent, "$", ","), "IncompleteSignature"),
    ("a signature before it", lambda sent: resigned(sent, "Credential", "Signature=0, Credential"),
     "IncompleteSignature"),
    ("a part twice", lambda sent: resigned(sent, "$", ", Signature=0"), "IncompleteSignature"),
    ("other algorithm", lambda sent: resigned(sent, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
     "IncompleteSignature"),
    ("bearer", lambda sent: sent.with_headers(Authorization=f"Bearer {TOKEN}"),
     "IncompleteSignature"),
    ("none", lambda sent: sent.with_headers(Authorization=None), "MissingAuthenticationToken"),
    ("bad date", lambda sent: sent.with_headers(X_Amz_Date="20261399T000000Z"),
     "IncompleteSignature"),
    ("no year", lambda sent: sent.with_headers(X_Amz_Date=None, Date="31 Dec 9999 23:59 -2300"),
     "IncompleteSignature"),
    ("unsigned body", lambda sent: sent.with_headers(X_Amz_Content_SHA256="UNSIGNED-PAYLOAD"),
     "SignatureDoesNotMatch"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code"), [each[1:] for each in CHANGES],
                         ids=[each[0] for each in CHANGES])  # fmt: skip
def test_what_was_changed_on_the_way_is_refused(
    verify: Callable[..., str], change: Callable[[Sent], Sent], code: str
) -> None:
    sent = sign(target="/0/q?a=1")
    assert verify(sent) == "till"

    assert code_of(lambda: verify(change(sent))) == code


def test_a_body_that_nobody_signed_is_refused_though_the_rest_is(
    verify: Callable[..., str],
) -> None:
    """S3 allows that over TLS, where the signature is right for a body of any bytes."""
    request = AWSRequest("POST", "https://localhost:9324/", dict(SEND), b"{}")
    request.context["payload_signing_enabled"] = False
    SigV4Auth(KEY, "sqs", "us-east-1").add_auth(request)
    headers = CIMultiDict({"Host": "localhost:9324", **request.headers})

    assert code_of(lambda: verify(Sent("POST", "/", headers, b"{}"))) == "SignatureDoesNotMatch"


def test_the_hash_of_the_body_may_be_a_header_of_its_own(verify: Callable[..., str]) -> None:
    empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

    assert verify(sign(headers={**SEND, "X-Amz-Content-SHA256": empty})) == "till"


@pytest.mark.parametrize("name", ["X-Amz-Target", "X-Amz-Date", "Host", "Authorization"])
def test_a_header_that_is_given_twice_is_refused(verify: Callable[..., str], name: str) -> None:
    sent = sign()
    sent.headers.add(name, sent.headers[name])

    assert code_of(lambda: verify(sent)) in ("IncompleteSignature", "SignatureDoesNotMatch")


def test_a_list_of_headers_split_in_two_is_refused(verify: Callable[..., str]) -> None:
    """Both are the same text to sign, and the first alone would count."""
    sent = sign(headers={**SEND, "X-Amz-Target": "AmazonSQS.DeleteQueue,AmazonSQS.SendMessage"})
    assert verify(sent) == "till"
    sent.headers.popall("X-Amz-Target")
    sent.headers.add("X-Amz-Target", "AmazonSQS.DeleteQueue")
    sent.headers.add("X-Amz-Target", "AmazonSQS.SendMessage")

    assert code_of(lambda: verify(sent)) == "IncompleteSignature"


@pytest.mark.parametrize("seconds", [905, -905, 86_400])
def test_a_replay_after_a_quarter_of_an_hour_is_refused(
    verify: Callable[..., str], seconds: float
) -> None:
    sent = sign()

    assert verify(sent, seconds / abs(seconds) * 890) == "till"
    assert code_of(lambda: verify(sent, seconds)) == "RequestExpired"


def test_the_wrong_secret_is_refused(verify: Callable[..., str]) -> None:
    sent = sign(credentials=Credentials("till", TOKEN + "="))

    assert code_of(lambda: verify(sent)) == "SignatureDoesNotMatch"


def test_a_presigned_request_lasts_as_long_as_it_says(verify: Callable[..., str]) -> None:
    sent = presigned()
    assert "X-Amz-Expires=3600" in sent.target

    assert verify(sent, 3590) == "till"
    assert code_of(lambda: verify(sent, 3610)) == "RequestExpired"
    assert code_of(lambda: verify(sent, -1000)) == "RequestExpired"


PRESIGNED: list[tuple[str, str, str]] = [
    ("ReceiveMessage", "DeleteQueue", "SignatureDoesNotMatch"),
    ("/q", "/other", "SignatureDoesNotMatch"),
    ("Expires=3600", "Expires=36000", "SignatureDoesNotMatch"),
    ("Expires=3600", "Expires=0", "IncompleteSignature"),
    ("Expires=3600", "Expires=604801", "IncompleteSignature"),
    ("X-Amz-Expires=3600&", "", "IncompleteSignature"),
    ("us-east-1", "eu-west-1", "SignatureDoesNotMatch"),
    ("X-Amz-Signature=", "X-Amz-Signature=0&X-Amz-Signature=", "IncompleteSignature"),
    ("X-Amz-Signature=", "x=1&X-Amz-Signature=", "SignatureDoesNotMatch"),
    ("HMAC-SHA256", "HMAC-SHA1", "IncompleteSignature"),
]


@pytest.mark.parametrize(("old", "new", "code"), PRESIGNED)
def test_a_presigned_request_that_was_changed_is_refused(
    verify: Callable[..., str], old: str, new: str, code: str
) -> None:
    sent = presigned()
    changed = sent._replace(target=sent.target.replace(old, new))
    assert changed != sent

    assert code_of(lambda: verify(changed)) == code
    assert code_of(lambda: verify(sent._replace(body=b"more"))) == "SignatureDoesNotMatch"


def test_two_signatures_are_refused(verify: Callable[..., str]) -> None:
    sent = sign(target=presigned().target)

    assert code_of(lambda: verify(sent)) == "IncompleteSignature"


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_whatever_is_said_of_a_signature_is_refused_and_never_fails(
    verify: Callable[..., str], authorization: str, date: str, query: str
) -> None:
    headers = CIMultiDict({"Host": "a", "Authorization": authorization, "X-Amz-Date": date})
    code_of(lambda: verify(Sent("GET", "/", headers)))
    text = f"AWS4-HMAC-SHA256 Credential={authorization}, SignedHeaders={date}, Signature={query}"
    code_of(lambda: verify(Sent("GET", f"/?X-Amz-Date={query}", headers)))
    headers["Authorization"] = text
    code_of(lambda: verify(Sent("GET", "/", headers)))
