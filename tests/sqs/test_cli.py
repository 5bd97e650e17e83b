"""The process `mq-sqs`, and `mq --standalone --sqs-port`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import client_of, make_url, name_of
from tests.support.processes import Server, wait_until
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


def test_health_and_metrics_are_told(start_gateway: Callable[..., Server]) -> None:
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
    wait_until(lambda: listening.search(server.log()), 30)
    found = listening.search(server.log())
    assert found is not None
    sqs = client_of(server, endpoint_url=found[1])
    url = make_url(sqs)
    sqs.send_message(QueueUrl=url, MessageBody="a")

    [first] = sqs.receive_message(QueueUrl=url)["Messages"]
    [again] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])

    assert first["MessageId"] == again["MessageId"]
    assert server.stop() == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(found[1])


def test_a_port_for_sqs_goes_with_standalone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mq", f"--root={tmp_path}", "--sqs-port=0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "--standalone" in done.stderr


@pytest.mark.parametrize("command", [["mq_sqs"], ["mq", "--standalone", "--sqs-port=0"]])
def test_tokens_are_refused_while_signatures_are_not_verified(
    tmp_path: Path, command: list[str]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("till write,read,admin Hj0vVt9xkq3mP2sYw8LrBg\n")
    tokens.chmod(0o600)
    flags = [f"--root={tmp_path / 'root'}", "--port=0", "--admin=", f"--token-file={tokens}"]
    done = subprocess.run(
        [sys.executable, "-m", *command, *flags],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "signatures" in done.stderr
