"""Order, groups, receipts and deduplication outlive a kill -9 of the gateway."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from itertools import count
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.fifo_history import FifoChange, FifoGiven, FifoHistory, FifoOutcome, FifoSent
from tests.support.gateways import client_of, make_url, name_of
from tests.support.processes import Process, Server, start_mover, wait_until

ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
ARN = "arn:aws:sqs:us-east-1:000000000000:"
GROUPS = "abcd"
SECONDS = (1, 2)
"""Visibility timeouts: some end while no gateway runs."""


class Caller:
    """One client of whichever gateway runs; what it asks for and is told goes to the history."""

    def __init__(self, gateways: Sequence[Server], history: FifoHistory, name: str) -> None:
        self.chance = random.Random(name)
        self._receives = (f"{name}{number}" for number in count())
        self._gateways = gateways
        self._history = history
        self._stack = ExitStack()
        self._sqs: Any = None

    def close(self) -> None:
        self._stack.close()
        self._sqs = None

    def _call(self, operation: str, **values: Any) -> tuple[FifoOutcome, dict[str, Any]]:
        """Make a request; after a failure the next one goes to the gateway that runs then."""
        try:
            if self._sqs is None:
                client = client_of(self._gateways[-1], config=ONCE)
                self._sqs = self._stack.enter_context(closing(client))
            return FifoOutcome.DONE, getattr(self._sqs, operation)(**values)
        except ClientError as error:
            is_unknown = error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
            return FifoOutcome.UNKNOWN if is_unknown else FifoOutcome.REFUSED, {}
        except BotoCoreError:
            self.close()
            time.sleep(0.05)
            return FifoOutcome.UNKNOWN, {}

    def send(self, url: str, pairs: Sequence[tuple[str, str]]) -> bool:
        """Send groups and bodies, in one request. Returns whether that was answered."""
        entries = [
            {"Id": str(at), "MessageBody": body, "MessageGroupId": group,
             "MessageDeduplicationId": body}
            for at, (group, body) in enumerate(pairs)
        ]  # fmt: skip
        begun = time.monotonic()
        outcome, found = self._call("send_message_batch", QueueUrl=url, Entries=entries)
        ended = time.monotonic()
        told = found.get("Successful", [{"MessageId": "", "SequenceNumber": 0}] * len(pairs))
        self._history.sent.extend(
            FifoSent(begun, ended, *pair, each["MessageId"], int(each["SequenceNumber"]))
            for pair, each in zip(pairs, told, strict=True)
        )
        return outcome is FifoOutcome.DONE

    def receive(self, url: str, limit: int, seconds: int) -> list[FifoGiven]:
        begun = time.monotonic()
        _, found = self._call(
            "receive_message", QueueUrl=url, MaxNumberOfMessages=limit, WaitTimeSeconds=1,
            VisibilityTimeout=seconds, MessageSystemAttributeNames=["All"],
        )  # fmt: skip
        ended, receive = time.monotonic(), next(self._receives)
        given = []
        for each in found.get("Messages", ()):
            group, number = (each["Attributes"][n] for n in ("MessageGroupId", "SequenceNumber"))
            told = each["Body"], each["MessageId"], int(number), each["ReceiptHandle"]
            given.append(FifoGiven(receive, begun, ended, seconds, group, *told))
        self._history.given.extend(given)
        return given

    def ask(self, url: str, given: FifoGiven, seconds: int | None) -> None:
        """Delete a message, or change its visibility."""
        begun = time.monotonic()
        receipt = {"QueueUrl": url, "ReceiptHandle": given.handle}
        if seconds is None:
            outcome, _ = self._call("delete_message", **receipt)
        else:
            change = {**receipt, "VisibilityTimeout": seconds}
            outcome, _ = self._call("change_message_visibility", **change)
        asked = FifoChange(begun, time.monotonic(), given.body, given.handle, seconds, outcome)
        self._history.asked.append(asked)


def produce(caller: Caller, url: str, name: str, is_over: threading.Event) -> None:
    """Send to all groups, each request until it is answered; some are sent once more later."""
    numbers, chance = count(), caller.chance
    while not is_over.wait(0.02):
        groups = chance.choices(GROUPS, k=chance.choice([1, 1, 3]))
        pairs = [(group, f"{group}-{name}{next(numbers)}") for group in groups]
        while not caller.send(url, pairs) and not is_over.is_set():
            pass
        if chance.random() < 0.1:
            caller.send(url, pairs)


def consume(caller: Caller, url: str, is_sent: threading.Event, is_over: threading.Event) -> None:
    """Receive, and delete, show, prolong or forget; at the end only delete."""
    chance = caller.chance
    while not is_over.is_set():
        for each in caller.receive(url, chance.choice([1, 2, 5]), chance.choice(SECONDS)):
            step = 1.0 if is_sent.is_set() else chance.random()
            if step < 0.03:
                break
            if step < 0.10:
                caller.ask(url, each, chance.choice([0, 2]))
            if step > 0.06:
                caller.ask(url, each, None)


@pytest.mark.parametrize("kills", [3])
def test_every_promise_holds_while_gateways_are_killed(
    start_gateway: Callable[..., Server], processes: list[Process], kills: int
) -> None:
    gateways = [start_gateway()]
    processes.append(start_mover(gateways[0].root))
    url = make_url(client_of(gateways[0]), FifoQueue="true")
    history, is_sent, is_over = FifoHistory(), threading.Event(), threading.Event()
    callers = {name: Caller(gateways, history, name) for name in "pqxyz"}
    senders = [
        threading.Thread(target=produce, args=[callers[name], url, name, is_sent]) for name in "pq"
    ]
    threads = senders + [
        threading.Thread(target=consume, args=[callers[name], url, is_sent, is_over])
        for name in "xyz"
    ]
    for thread in threads:
        thread.start()
    try:
        for kill in range(1, kills + 1):
            wait_until(lambda: len(history.given) > 50 * kill, 120)
            gateways[-1].kill()
            gateways.append(start_gateway(root=gateways[0].root))
        is_sent.set()
        for thread in senders:
            thread.join(60)
        wait_until(history.is_over, 120)
    finally:
        is_sent.set()
        is_over.set()
        for thread in threads:
            thread.join(60)
        for caller in callers.values():
            caller.close()

    assert history.faults() == []


def test_what_was_sent_to_a_queue_and_moved_out_of_it_is_not_sent_there_again(
    start_gateway: Callable[..., Server],
) -> None:
    """A person sent it to the dead letters, and a move task took it to another queue: there it was
    not sent, and others may have the same id."""
    server = start_gateway()
    sqs = client_of(server)
    line, dead = make_url(sqs, FifoQueue="true"), make_url(sqs, FifoQueue="true")
    arns = {"deadLetterTargetArn": ARN + name_of(dead), "maxReceiveCount": 5}
    sqs.set_queue_attributes(QueueUrl=line, Attributes={"RedrivePolicy": json.dumps(arns)})
    message = {"MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "once"}
    sent = [sqs.send_message(QueueUrl=dead, **message)["MessageId"]]
    task = {"SourceArn": ARN + name_of(dead)}
    sqs.start_message_move_task(**task, DestinationArn=ARN + name_of(line))
    wait_until(lambda: sqs.list_message_move_tasks(**task)["Results"][0]["Status"] == "COMPLETED")
    sent.append(sqs.send_message(QueueUrl=dead, **message)["MessageId"])
    server.kill()

    sqs = client_of(start_gateway(root=server.root))
    sent.append(sqs.send_message(QueueUrl=dead, **message)["MessageId"])
    other = sqs.send_message(QueueUrl=line, **message)["MessageId"]

    assert set(sent) == {sent[0]}
    assert other != sent[0]
    assert "Messages" not in sqs.receive_message(QueueUrl=dead)
    received = sqs.receive_message(QueueUrl=line, MaxNumberOfMessages=10)["Messages"]
    assert [each["MessageId"] for each in received] == [sent[0], other]


def test_a_dead_letter_stays_known_when_create_queue_takes_over_a_queue_of_mq(
    start_gateway: Callable[..., Server],
) -> None:
    server = start_gateway()
    sqs = client_of(server)
    dead, line = make_url(sqs, FifoQueue="true"), "line.fifo"
    (server.root / "queues" / line).mkdir()
    arns = {"deadLetterTargetArn": ARN + name_of(dead), "maxReceiveCount": 1}
    sqs.set_queue_attributes(QueueUrl=line, Attributes={"RedrivePolicy": json.dumps(arns)})
    message = {"MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "once"}
    sent = sqs.send_message(QueueUrl=line, **message)["MessageId"]
    second = int(time.time())
    sqs.receive_message(QueueUrl=line, VisibilityTimeout=0)
    wait_until(lambda: time.time() > second + 1)
    sqs.create_queue(QueueName=line, Attributes={"FifoQueue": "true"})
    server.kill()

    sqs = client_of(start_gateway(root=server.root))

    assert sqs.send_message(QueueUrl=line, **message)["MessageId"] == sent
    assert "Messages" not in sqs.receive_message(QueueUrl=line)
