"""What another gateway has done a moment ago, and may not have synced yet, is durable before a
client is told of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from mq.config import ServerConfig
from mq.errors import QueueNotFound
from mq.store.opening import open_store
from mq_sqs.calls import Operations, SqsCall
from mq_sqs.operations import HANDLERS
from mq_sqs.queues.addresses import Addressing
from tests.support.faults import WatchedFiles

JOBS = {"QueueUrl": "jobs", "QueueName": "jobs"}


class LoneGateway:
    """A gateway without HTTP, and its files."""

    def __init__(self, operations: Operations, files: WatchedFiles) -> None:
        self.operations = operations
        self.files = files

    async def run(self, operation: str) -> None:
        handler = HANDLERS[operation]
        async with AsyncExitStack() as exits:
            request = make_mocked_request("POST", "/")
            call = SqsCall({**JOBS}, request, "http://localhost", None, exits)
            await handler.run(self.operations, call, handler.queue_of(call.values))


@pytest.fixture
async def gateways(disk: Path) -> AsyncIterator[list[LoneGateway]]:
    async with AsyncExitStack() as stack:
        found = []
        for files in (WatchedFiles(), WatchedFiles()):
            store = await stack.enter_async_context(open_store(ServerConfig(root=disk), files))
            found.append(LoneGateway(Operations(store, Addressing(), 30.0), files))
        yield found


async def test_a_queue_that_is_there_already_is_durable(gateways: list[LoneGateway]) -> None:
    one, other = gateways
    await one.run("CreateQueue")
    before = other.files.syncs()

    await other.run("CreateQueue")

    assert other.files.syncs() > before


async def test_a_queue_that_is_deleted_meanwhile_is_made_as_a_new_one_is(
    gateways: list[LoneGateway], disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = gateways
    await one.run("CreateQueue")
    settings = disk / "queues" / "jobs" / ".settings"
    names = {line.partition("=")[0] for line in settings.read_text().splitlines()}
    store = other.operations.store
    create_queue = store.create_queue

    async def create_another(*arguments: Any) -> bool:
        if settings.exists():
            await one.run("DeleteQueue")
        return await create_queue(*arguments)

    monkeypatch.setattr(store, "create_queue", create_another)
    await other.run("CreateQueue")

    assert {line.partition("=")[0] for line in settings.read_text().splitlines()} == names


async def test_a_queue_that_is_gone_already_stays_gone(gateways: list[LoneGateway]) -> None:
    one, other = gateways
    await one.run("CreateQueue")
    await one.run("DeleteQueue")
    before = other.files.syncs()

    with pytest.raises(QueueNotFound):
        await other.run("DeleteQueue")

    assert other.files.syncs() > before
