"""Order, groups and deduplication outlive a kill -9 of the gateway."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.gateways import client_of, make_url
from tests.support.processes import Process, Server, start_mover, wait_until

ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
ALL = {"MessageSystemAttributeNames": ["All"], "MaxNumberOfMessages": 10}


def send(sqs: Any, url: str, body: str, group: str = "a", **more: Any) -> Any:
    return sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, **more)


class FifoHistory:
    """What clients saw of a queue, by group. A group's messages are numbers, sent in their order by
    one producer, each until it is answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: dict[str, dict[int, str]] = defaultdict(dict)
        self.asked: dict[str, set[int]] = defaultdict(set)
        self.faults: list[str] = []

    def send(self, group: str, number: int, message_id: str) -> None:
        with self._lock:
            self.sent[group][number] = message_id

    def receive(self, messages: list[Any]) -> None:
        """Whatever comes, its deletion was asked for of all that come before it in its group."""
        with self._lock:
            here: set[tuple[str, int]] = set()
            for message in messages:
                group, number = message["Attributes"]["MessageGroupId"], int(message["Body"])
                early = set(range(number)) - self.asked[group]
                if early - {other for name, other in here if name == group}:
                    self.faults.append(f"{group}{number} came before {sorted(early)}")
                here.add((group, number))
                if (
                    self.sent[group].setdefault(number, message["MessageId"])
                    != message["MessageId"]
                ):
                    self.faults.append(f"{group}{number} was sent twice")

    def ask(self, message: Any) -> None:
        with self._lock:
            self.asked[message["Attributes"]["MessageGroupId"]].add(int(message["Body"]))

    def is_over(self) -> bool:
        return all(self.asked[group] >= numbers.keys() for group, numbers in self.sent.items())


@pytest.mark.parametrize("kills", [2])
def test_order_and_deduplication_hold_while_gateways_are_killed(
    start_gateway: Callable[..., Server], processes: list[Process], kills: int
) -> None:
    gateways = [start_gateway()]
    processes.append(start_mover(gateways[0].root))
    url = make_url(client_of(gateways[0]), FifoQueue="true", VisibilityTimeout="3")
    history, is_sending, is_over = FifoHistory(), threading.Event(), threading.Event()
    is_sending.set()
    stack = ExitStack()

    def produce(group: str) -> None:
        number = 0
        while is_sending.is_set():
            try:
                sqs = stack.enter_context(closing(client_of(gateways[-1], config=ONCE)))
                while is_sending.is_set():
                    body, own = str(number), f"{group}{number}"
                    told = send(sqs, url, body, group, MessageDeduplicationId=own)
                    history.send(group, number, told["MessageId"])
                    number += 1
            except (BotoCoreError, ClientError):
                is_over.wait(0.05)

    def consume() -> None:
        while not is_over.is_set():
            try:
                sqs = stack.enter_context(closing(client_of(gateways[-1], config=ONCE)))
                while not is_over.is_set():
                    found = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1, **ALL)
                    messages = found.get("Messages", [])
                    history.receive(messages)
                    for each in messages:
                        history.ask(each)
                        sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
            except (BotoCoreError, ClientError):
                is_over.wait(0.05)

    names = [f"g{at}" for at in range(4)]
    threads = [threading.Thread(target=produce, args=[name]) for name in names]
    threads += [threading.Thread(target=consume) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for kill in range(1, kills + 1):
            wait_until(lambda: min(len(history.sent[name]) for name in names) > 20 * kill, 120)
            gateways[-1].kill()
            gateways.append(start_gateway(root=gateways[0].root))
        is_sending.clear()
        wait_until(lambda: history.is_over() or bool(history.faults), 120)
    finally:
        is_sending.clear()
        is_over.set()
        for thread in threads:
            thread.join(60)
        stack.close()

    assert history.faults == []
