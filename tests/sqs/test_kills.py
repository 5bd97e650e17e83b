"""What a gateway has answered outlives its kill -9."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.gateways import client_of, make_url, name_of
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire

ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)


def all_of(sqs: Any, url: str) -> dict[str, str]:
    """The bodies that are there, by the ids of their messages."""
    found: dict[str, str] = {}
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found |= {each["MessageId"]: each["Body"] for each in messages}
    return found


def test_nothing_answered_is_lost_and_nothing_deleted_comes_back(
    start_gateway: Callable[..., Server],
) -> None:
    server = start_gateway("--visibility=2")
    url = make_url(client_of(server), VisibilityTimeout="1")
    sent: dict[str, str] = {}
    deleted: set[str] = set()
    asked: set[str] = set()

    def work(number: int) -> None:
        sqs = client_of(server, config=ONCE)
        try:
            for at in range(10_000):
                body = f"{number}-{at}"
                entries = [{"Id": "a", "MessageBody": body}, {"Id": "b", "MessageBody": body}]
                done = sqs.send_message_batch(QueueUrl=url, Entries=entries)
                sent.update((each["MessageId"], body) for each in done["Successful"])
                for each in sqs.receive_message(QueueUrl=url).get("Messages", []):
                    asked.add(each["MessageId"])
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                    deleted.add(each["MessageId"])
        except (BotoCoreError, ClientError):
            return

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    while len(sent) < 200:
        threads[0].join(0.01)
    server.kill()
    for thread in threads:
        thread.join(60)

    again = start_gateway(root=server.root)
    there = all_of(client_of(again), url)
    leased = {path.name.partition(":")[2] for path in (again.root / "delay").iterdir()}
    assert sent.keys() - asked <= there.keys() | leased
    assert not deleted & (there.keys() | leased)
    assert all(sent.get(each, body) == body for each, body in there.items())


def test_handles_attributes_and_tags_outlive_a_kill(start_gateway: Callable[..., Server]) -> None:
    server = start_gateway()
    sqs = client_of(server)
    url = make_url(sqs, VisibilityTimeout="600")
    sqs.send_message(QueueUrl=url, MessageBody="a")
    sqs.send_message(QueueUrl=url, MessageBody="b")
    first, second = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "7"})
    sqs.tag_queue(QueueUrl=url, Tags={"team": "a"})
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0
    )
    server.kill()

    sqs = client_of(start_gateway(root=server.root))
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    [again] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=900
    )

    assert again["MessageId"] == second["MessageId"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (found["DelaySeconds"], found["VisibilityTimeout"]) == ("7", "600")
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a"}
    assert found["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_a_queue_that_a_killed_gateway_left_half_made_can_be_made_again(
    start_gateway: Callable[..., Server],
) -> None:
    """The folder comes first, its settings next: what a kill between the two leaves."""
    server = start_gateway()
    (server.root / "queues" / "half").mkdir()
    sqs = client_of(server)

    made = sqs.create_queue(QueueName="half", Attributes={"DelaySeconds": "5"}, tags={"team": "a"})

    url = made["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])
    assert found["Attributes"] == {"DelaySeconds": "5"}
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a"}


def test_a_move_task_goes_on_after_a_kill(
    start_gateway: Callable[..., Server], start_server: Callable[..., Server]
) -> None:
    """Each message is in one of its two queues at any time, and in the right one in the end."""
    server = start_gateway()
    sqs = client_of(server)
    dead = make_url(sqs)
    arn = "arn:aws:sqs:us-east-1:000000000000:" + name_of(dead)
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = make_url(sqs, RedrivePolicy=policy)
    over_http, source, target = Wire(start_server().port), name_of(url), name_of(dead)
    sent = {over_http.publish(source, b"a") for _ in range(60)}
    moved = over_http.request("POST", f"/{target}/messages?from={source}&reason=max-receives")
    assert moved.json() == {"moved": 60}
    over_http.close()
    sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=40)

    folder = server.root / "queues"
    wait_until(lambda: any((folder / name_of(url)).iterdir()))
    server.kill()
    there = {path.name for path in (folder / name_of(url)).iterdir()}
    there |= {path.name for path in (folder / name_of(dead)).iterdir()}
    assert sent <= there

    again = client_of(start_gateway(root=server.root))

    def is_over() -> bool:
        [task] = again.list_message_move_tasks(SourceArn=arn)["Results"]
        return bool(task["Status"] == "COMPLETED")

    wait_until(is_over, 100)
    assert all_of(again, url).keys() == sent
    assert all_of(again, dead) == {}
