"""Each error that the gateway can send is met by a request, in each protocol that has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from botocore.credentials import Credentials
from multidict import CIMultiDict, CIMultiDictProxy

from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq_sqs import faults, gateway
from mq_sqs.faults import SQSError, SqsFault
from mq_sqs.protocol.json import JsonDialect
from mq_sqs.protocol.query import QueryDialect
from mq_sqs.queues.addresses import Addressing
from tests.support.gateways import Told, ask_both, ask_json, send, text_in
from tests.support.processes import Server
from tests.support.scraping import scrape
from tests.support.signers import Sent, sign
from tests.support.token_files import make_token_file
from tests.support.wire import Wire

FAULTS: Mapping[str, SqsFault] = {
    each.name: each for each in vars(faults).values() if isinstance(each, SqsFault)
}

NO_QUEUE = "The specified queue does not exist for this wsdl version."

TOKEN = "Hj0vVt9xkq3mP2sYw8LrBg"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
LIST = b"Action=ListQueues"
JSON_LIST = {"X-Amz-Target": "AmazonSQS.ListQueues"}

Tell = Callable[[Server], list[Told]]


def by_both(method: str, target: str = "/", **headers: str) -> Tell:
    """ListQueues in JSON and as a form, with these headers."""
    return lambda server: [
        send(server, method, target, {**JSON_LIST, **headers}, b"{}"),
        send(server, method, target, {**FORM, **headers}, LIST),
    ]


def at_length(server: Server) -> list[Told]:
    long = b" " * (8 << 20)
    return [send(server, "POST", "/", JSON_LIST, b"{}" + long),
            send(server, "POST", "/", FORM, LIST + long)]  # fmt: skip


def raw(server: Server, text: bytes) -> Told:
    wire = Wire(server.port)
    wire.send(text)
    answer = wire.answer("POST")
    wire.close()
    headers = cast(Any, answer.headers)
    code = headers.get("x-amzn-query-error", "").partition(";")[0]
    name = json.loads(answer.body)["__type"].partition("#")[2] if code else ""
    told = Told(answer.status, code, "", name, headers, answer.body)
    return told if code else told._replace(code=text_in(told, "Code") or "")


NOWHERE = {"SourceArn": "arn:aws:sqs:us-east-1:000000000000:not-there"}

MET: Mapping[str, Tell] = {
    "InvalidAddress": by_both("POST", Host="evil.example.org"),
    "InvalidSecurity": by_both("POST", Origin="https://evil.example.org"),
    "RequestEntityTooLarge": at_length,
    "ResourceNotFoundException": lambda server: ask_both(server, "ListMessageMoveTasks", NOWHERE),
    "UnsupportedMethod": by_both("PUT"),
}
"""Errors that do not depend on the values of a request."""

SIGNED = (
    "MissingAuthenticationToken", "IncompleteSignature", "InvalidClientTokenId",
    "SignatureDoesNotMatch", "RequestExpired", "AccessDeniedException",
)  # fmt: skip

OF_VALUES = frozenset({
    "BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidAttributeName",
    "InvalidAttributeValue", "InvalidBatchEntryId", "InvalidMessageContents",
    "InvalidParameterValueException", "MissingRequiredParameterException", "QueueDoesNotExist",
    "QueueNameExists", "ReceiptHandleIsInvalid", "SerializationException",
    "TooManyEntriesInBatchRequest", "UnknownOperationException", "UnsupportedOperation",
})  # fmt: skip
"""Errors that tests/sqs/test_faults.py meets in both protocols."""

OTHERS = {
    "EmptyValue": "of an entry of a batch: tests/sqs/operations/test_batches.py",
    "MalformedQueryString": "of the query protocol alone: tests/sqs/test_faults.py",
    "UnknownOperation": "of the query protocol alone, and of GET: tests/sqs/test_faults.py",
    "MissingAction": "of the query protocol alone: JSON names an operation, or is not JSON",
    "MessageNotInflight": "of a message that came back: tests/sqs/operations/test_receipts.py",
    "RequestTimeout": "test_a_body_that_does_not_come_is_a_request_timeout",
    "InternalError": "test_a_defect_is_answered_as_one",
    "ServiceUnavailable": "test_a_full_queue_is_answered_as_one",
}


def test_no_error_is_left_out() -> None:
    assert {*MET, *SIGNED, *OTHERS, *OF_VALUES} == FAULTS.keys()


def assert_both(name: str, told: list[Told]) -> None:
    fault = FAULTS[name]
    by_json, by_query = told
    assert (by_json.name, by_json.code, by_json.status) == (name, fault.code, fault.status)
    assert (by_query.code, by_query.status) == (fault.code, fault.status)


@pytest.mark.parametrize("name", MET)
def test_an_error_of_any_gateway_is_answered_in_both_protocols(gateway: Server, name: str) -> None:
    assert_both(name, MET[name](gateway))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_error_is_said_as_each_protocol_says_it(fault: SqsFault) -> None:
    error = SQSError(fault, 'why <&> "so"\r')

    by_json = _told(JsonDialect().refuse(error, "id"))
    by_query = _told(QueryDialect().refuse(error, "id"))

    whose = "Sender" if fault.is_senders else "Receiver"
    assert by_json.status == by_query.status == fault.status
    assert (400 <= fault.status < 500) is fault.is_senders
    document = json.loads(by_json.body)
    assert document == {"__type": f"com.amazonaws.sqs#{fault.name}", "message": str(error)}
    assert by_json.headers["x-amzn-query-error"] == f"{fault.code};{whose}"
    assert "x-amzn-errortype" not in by_json.headers  # Amazon documents none.
    assert [text_in(by_query, each) for each in ("Type", "Code", "Message", "RequestId")] == [
        whose, fault.code, NO_QUEUE if fault is faults.QUEUE_DOES_NOT_EXIST else str(error), "id",
    ]  # fmt: skip


def _told(answer: Answer) -> Told:
    head, _, body = answer.to_bytes(is_last=False).partition(b"\r\n\r\n")
    lines = [line.partition(": ")[::2] for line in head.decode().split("\r\n")[1:]]
    return Told(answer.status, "", "", "", cast(Any, dict(lines)), body)


def test_a_body_that_does_not_come_is_a_request_timeout(
    start_gateway: Callable[..., Server],
) -> None:
    server = start_gateway("--body-timeout=1")
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n%s\r\n{"

    told = [raw(server, head % each) for each in (b"X-Amz-Target: AmazonSQS.ListQueues\r\n", b"")]

    assert_both("RequestTimeout", told)


def test_a_full_queue_is_answered_as_one(start_gateway: Callable[..., Server]) -> None:
    server = start_gateway("--max-queue-messages=1", "--admin=127.0.0.1:0")
    ask_json(server, "CreateQueue", {"QueueName": "a"})
    values = {"QueueUrl": "/0/a", "MessageBody": "a"}
    assert ask_json(server, "SendMessage", values).status == 200

    for _ in range(3):
        assert_both("ServiceUnavailable", ask_both(server, "SendMessage", values))

    counts = scrape(server.admin_port).by("mq_http_request_duration_seconds_count", "route")
    assert counts == {"CreateQueue": 1, "SendMessage": 7}


async def test_a_defect_is_answered_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a secret of ours")

    monkeypatch.setattr(gateway, "start_of", lambda http: 0.0)
    monkeypatch.setattr(gateway.Gateway, "_read", fail)
    store = SimpleNamespace(joint=lambda make: None)
    handler = gateway.Gateway(
        cast(Store, store),
        Addressing(),
        visibility_seconds=30.0,
        signatures=None,
        durations=Durations(),
        origins=OriginPolicy(()),
    )
    told = []
    for headers in (JSON_LIST, FORM):
        head = CIMultiDictProxy(CIMultiDict(headers))
        http = cast(web.BaseRequest, SimpleNamespace(method="POST", headers=head))
        answer = await handler.handle(http)
        assert isinstance(answer, Answer)
        told.append(_told(answer))

    by_json, by_query = told
    fault = faults.INTERNAL_ERROR
    assert by_json.status == by_query.status == 500
    assert json.loads(by_json.body)["__type"].endswith(f"#{fault.name}")
    assert by_json.headers["x-amzn-query-error"] == f"{fault.code};Receiver"
    assert text_in(by_query, "Code") == fault.code
    assert b"secret" not in by_json.body + by_query.body


# Signatures


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("guarded")
    tokens = make_token_file(folder, f"till write orders {TOKEN}")
    flags = (f"--token-file={tokens}",)
    server = Server(folder / "root", *flags, log=folder / "sqs.log", module="mq_sqs")
    yield server
    server.kill()


def changed(name: str, sent: Sent) -> Sent:
    if name == "MissingAuthenticationToken":
        return sent.with_headers(Authorization=None)
    if name == "IncompleteSignature":
        return sent.with_headers(Authorization=f"Bearer {TOKEN}")
    if name == "SignatureDoesNotMatch":
        return sent._replace(body=sent.body[::-1])
    if name == "RequestExpired":
        text = sent.headers["Authorization"].replace(sent.headers["X-Amz-Date"][:8], "20200101")
        return sent.with_headers(Authorization=text, X_Amz_Date="20200101T000000Z")
    return sent


@pytest.mark.parametrize("name", SIGNED)
def test_an_error_of_a_signature_is_answered_in_both_protocols(guarded: Server, name: str) -> None:
    whose = "nobody" if name == "InvalidClientTokenId" else "till"
    told = []
    for headers, body in ((JSON_LIST, b"{}"), (FORM, LIST)):
        sent = sign(headers=dict(headers), body=body, credentials=Credentials(whose, TOKEN))
        request = changed(name, sent)
        told.append(send(guarded, request.method, "/", dict(request.headers), request.body))

    assert_both(name, told)
