"""The process `mq-sqs`, and `mq --standalone --sqs-port`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from mq.config import ServerConfig
from mq.daemon.standalone import gateway_arguments
from mq_sqs.cli import mq_sqs
from tests.support.gateways import CREDENTIALS, ask_both, client_of, make_url, name_of, send
from tests.support.processes import Server, wait_until
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, wait_until_read


def receive_all(sqs: Any, url: str) -> list[str]:
    found = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [each["Body"] for each in messages]
    return found


def test_flags_say_what_addresses_look_like(start_gateway: Callable[..., Server]) -> None:
    server = start_gateway(
        "--region=eu-west-1", "--account=123456789012", "--url=https://sqs.example.org/"
    )
    sqs = client_of(server)

    url = make_url(sqs)

    assert url == f"https://sqs.example.org/123456789012/{name_of(url)}"
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    assert arn == {"QueueArn": f"arn:aws:sqs:eu-west-1:123456789012:{name_of(url)}"}


@pytest.mark.parametrize(
    "flag", ["--region=a b", "--account=12", "--url=ftp://x", "--url=http://x?y", "--socket=/x"]
)
def test_a_wrong_flag_is_refused(flag: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mq_sqs", flag], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert flag.partition("=")[0] in done.stderr


def test_health_and_metrics_are_served(start_gateway: Callable[..., Server]) -> None:
    server = start_gateway("--admin=127.0.0.1:0")
    sqs = client_of(server)
    sqs.send_message(QueueUrl=make_url(sqs), MessageBody="a")

    def tell(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}{path}") as answer:
            return str(answer.read().decode())

    assert tell("/readyz") == "ready\n"
    metrics = tell("/metrics")
    assert re.search(r"mq_\w*published_total\{[^}]*\} 1\.0", metrics)
    assert re.search(r'route="SendMessage"', metrics)


def test_a_stopped_gateway_answers_its_long_polls(start_gateway: Callable[..., Server]) -> None:

    server = start_gateway()
    url = make_url(client_of(server))
    wire = Wire(server.port)
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20}).encode()
    wire.send(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body),
        body,
    )
    wait_until_read(server, wire)

    assert server.stop() == 0
    answer = wire.answer()
    wire.close()
    assert (answer.status, answer.body) == (200, b"{}")


def test_mq_and_gateways_serve_the_same_root(
    start_gateway: Callable[..., Server], start_server: Callable[..., Server]
) -> None:
    """What is published on one is received on the other, and removed for both."""
    first, second, over_http = start_gateway(), start_gateway(), start_server()
    one, two = client_of(first), client_of(second)
    url = make_url(one)
    wire = Wire(over_http.port)

    one.send_message(QueueUrl=url, MessageBody="by SQS")
    assert wire.receive(name_of(url)).body == b"by SQS"
    wire.publish(name_of(url), b"by HTTP")
    [message] = two.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    one.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert message["Body"] == "by HTTP"
    assert wire.count(name_of(url)) == (0, 1)
    wire.close()


def test_a_standalone_server_runs_the_gateway_too(start_server: Callable[..., Server]) -> None:
    server = start_server("--standalone", "--sqs-port=0", "--visibility=1", "--keep=0")
    listening = re.compile(r"process=mq-sqs event=listening url=(http://127\.0\.0\.1:\d+)")
    wait_until(lambda: listening.search(server.log()), 100)
    found = listening.search(server.log())
    assert found is not None
    sqs = client_of(server, endpoint_url=found[1])
    url = make_url(sqs)
    sqs.send_message(QueueUrl=url, MessageBody="a")

    [first] = sqs.receive_message(QueueUrl=url)["Messages"]
    [again] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])

    assert first["MessageId"] == again["MessageId"]
    os.kill(gateway_of(server), signal.SIGKILL)
    wait_until(lambda: len(listening.findall(server.log())) == 2, 100)
    assert set(listening.findall(server.log())) == {found[1]}
    assert server.stop() == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(found[1])


def gateway_of(server: Server) -> int:
    """Return the id of the process that `mq --standalone` runs as a gateway."""
    pid = server.popen.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [found] = [each for each in children if b"mq_sqs" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return int(found)


def test_a_port_for_sqs_goes_with_standalone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mq", f"--root={tmp_path}", "--sqs-port=0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "--standalone" in done.stderr


def test_the_gateway_of_a_standalone_server_has_its_flags() -> None:
    plain = ServerConfig()
    config = ServerConfig(
        root=Path("/srv/mq"), workers=3, peers=2, visibility_seconds=1.5, max_receives=4,
        max_queue_messages=5, min_free_bytes=6, mode=0o770, max_connections=7,
        header_timeout_seconds=8.5, body_timeout_seconds=9.5, reuse_port=True,
        token_file=Path("/srv/tokens"), cert=Path("/srv/cert"), key=Path("/srv/key"),
        allowed_hosts=("a", "b"), insecure=True, log_format="json",
    )  # fmt: skip

    given = mq_sqs.make_context("mq-sqs", gateway_arguments(config, 1)[1:]).params

    shared = {each.name for each in fields(config)} & given.keys() - {"address", "port", "admin"}
    assert {name: given[name] for name in shared} == {
        name: getattr(config, name) for name in shared
    }
    assert [name for name in shared if getattr(config, name) == getattr(plain, name)] == []


TILL, BOSS = "Hj0vVt9xkq3mP2sYw8LrBg", "boss/Vt9xkq3mP2sYw8LrBg+"
TOKENS = f"""\
till write orders* {TILL}
boss read,write,admin * {BOSS}
hashed read,write,admin * sha256:{"9f" * 32}
"""


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return make_token_file(tmp_path, TOKENS)


def as_whom(server: Server, name: str, secret: str, **settings: Any) -> Any:
    """A client of boto3 that signs with a token."""
    return client_of(server, aws_access_key_id=name, aws_secret_access_key=secret, **settings)


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def test_a_client_may_do_what_its_token_is_for(
    start_gateway: Callable[..., Server], token_file: Path
) -> None:
    server = start_gateway(f"--token-file={token_file}")
    boss, till = as_whom(server, "boss", BOSS), as_whom(server, "till", TILL)
    orders = boss.create_queue(QueueName="orders")["QueueUrl"]
    mail = boss.create_queue(QueueName="mail")["QueueUrl"]

    till.send_message(QueueUrl=orders, MessageBody="a" * 600_000)
    [message] = till.receive_message(QueueUrl=orders)["Messages"]
    till.delete_message(QueueUrl=orders, ReceiptHandle=message["ReceiptHandle"])

    assert len(message["Body"]) == 600_000
    assert code_of(lambda: till.send_message(QueueUrl=mail, MessageBody="a")) == "AccessDenied"
    assert code_of(lambda: till.purge_queue(QueueUrl=orders)) == "AccessDenied"
    assert code_of(till.list_queues) == "AccessDenied"
    wrong = as_whom(server, "boss", TILL)
    assert code_of(wrong.list_queues) == "SignatureDoesNotMatch"
    unknown, hashed = as_whom(server, "x", TILL), as_whom(server, "hashed", TILL)
    assert code_of(unknown.list_queues) == "InvalidClientTokenId"
    assert code_of(hashed.list_queues) == "InvalidClientTokenId"
    warning = [line for line in server.log().splitlines() if "cannot verify" in line]
    assert len(warning) == 1
    assert "line=3 " in warning[0]
    assert TILL not in server.log()


def test_awscli_signs_with_a_token(start_gateway: Callable[..., Server], token_file: Path) -> None:
    server = start_gateway(f"--token-file={token_file}")
    keys = {"AWS_ACCESS_KEY_ID": "boss", "AWS_SECRET_ACCESS_KEY": BOSS}

    done = subprocess.run(
        [sys.executable, "-m", "awscli", "sqs", "create-queue", "--queue-name=orders",
         f"--endpoint-url={server.url}"],
        env=os.environ | CREDENTIALS | keys | {"AWS_SESSION_TOKEN": "any"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


def test_a_stranger_is_told_so_in_both_protocols(
    start_gateway: Callable[..., Server], token_file: Path
) -> None:
    server = start_gateway(f"--token-file={token_file}")
    signature = "AWS4-HMAC-SHA256 Credential=x/20260101/r/sqs/aws4_request, SignedHeaders=host;" \
        "x-amz-date;x-amz-target, Signature=0"  # fmt: skip
    for operation in ("SendMessage", "ListQueues", "Nonsense"):
        for told in ask_both(server, operation, {"QueueUrl": "orders", "MessageBody": "a"}):
            assert (told.status, told.code) == (403, "MissingAuthenticationToken")
            assert b"Sign it with Signature Version 4" in told.body
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "X-Amz-Date": "20260101T000000Z"}
    told = send(server, "POST", "/", {**headers, "Authorization": signature}, b"{}")
    assert (told.status, told.name) == (403, "InvalidClientTokenId")
    for text in ("Bearer " + BOSS, "AWS4-HMAC-SHA256 Credential=x"):
        told = send(server, "POST", "/", {**headers, "Authorization": text}, b"{}")
        assert (told.status, told.name, told.code) == (400, *["IncompleteSignature"] * 2)


def test_a_presigned_query_is_a_request_for_anybody(
    start_gateway: Callable[..., Server], token_file: Path
) -> None:
    server = start_gateway(f"--token-file={token_file}")
    url = as_whom(server, "boss", BOSS).create_queue(QueueName="orders")["QueueUrl"]
    asked = AWSRequest("GET", f"{url}?Action=SendMessage&MessageBody=two%20coffees%26more")
    SigV4QueryAuth(Credentials("till", TILL), "sqs", "us-east-1", expires=60).add_auth(asked)

    with urllib.request.urlopen(asked.url) as answer:
        assert answer.status == 200

    till = as_whom(server, "till", TILL)
    assert receive_all(till, url) == ["two coffees&more"]


def test_a_token_that_was_taken_away_is_refused_by_the_gateway_of_a_standalone_server_too(
    start_server: Callable[..., Server], token_file: Path
) -> None:
    server = start_server("--standalone", "--sqs-port=0", f"--token-file={token_file}")
    listening = re.compile(r"process=mq-sqs event=listening url=(http://127\.0\.0\.1:\d+)")
    wait_until(lambda: listening.search(server.log()), 100)
    found = listening.search(server.log())
    assert found is not None
    boss = as_whom(server, "boss", BOSS, endpoint_url=found[1])
    url = boss.create_queue(QueueName="orders")["QueueUrl"]
    till = as_whom(server, "till", TILL, endpoint_url=found[1])
    till.send_message(QueueUrl=url, MessageBody="a")

    token_file.write_text(TOKENS.partition("\n")[2])
    server.popen.send_signal(signal.SIGHUP)

    reloaded = re.compile(r"process=mq-sqs event=reloaded what=\W?signing keys")
    wait_until(lambda: reloaded.search(server.log()), 100)
    refused = code_of(lambda: till.send_message(QueueUrl=url, MessageBody="a"))
    assert refused == "InvalidClientTokenId"
    assert boss.list_queues()["QueueUrls"] == [url]
