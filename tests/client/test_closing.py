"""A client that is closed while one of its calls waits to try again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from math import inf

from mq.client import Client, ClientError
from tests.support.breaking import Breaking
from tests.support.processes import wait_until

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 2\r\n\r\n{}"


def test_a_call_that_waits_to_try_again_ends_with_its_client(
    connect_client: Callable[..., Client],
) -> None:
    errors: list[str] = []

    def call(queue: str) -> None:
        try:
            mq.queue(queue).counts()
        except ClientError as error:
            errors.append(type(error).__name__)

    with closing(Breaking([BUSY])) as busy:
        mq = connect_client(busy.url, retry_seconds=inf)
        threading.Thread(target=call, args=["orders"], daemon=True).start()
        wait_until(lambda: busy.requests == 1)
        mq.close()

        wait_until(lambda: errors == ["ClientClosed"])
