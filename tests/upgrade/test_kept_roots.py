"""A root of each format that there has been is opened, and nothing that was in it is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import MessageNotFound
from mq.fsck.check import Check, report
from mq.names import MessageId, QueueName
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.root_format import FORMAT, LONG_SEALS, read_format
from tests.support.redelivery import redeliver
from tests.support.stores import ORDERS, body_of, publish, receive, store_on
from tests.upgrade.kept import FORMATS, messages_of, unpack


def test_each_format_that_a_server_knows_has_a_root() -> None:
    assert sorted(FORMATS) == sorted(each.replace(" ", "-") for each in (FORMAT, LONG_SEALS))


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest, root: Path) -> str:
    unpack(request.param, root)
    return str(request.param)


def test_files_are_laid_out_as_they_were(root: Path, name: str) -> None:
    seals = [path for path in root.rglob("*") if SEAL_ATTRIBUTE in _attributes(path)]

    assert len(seals) == len(messages_of(name))
    assert read_format(root) == name.replace("-", " ")


def _attributes(path: Path) -> list[str]:
    return os.listxattr(path) if path.is_file() else []


async def test_every_message_comes_whole_and_in_order(root: Path, name: str) -> None:
    expected = [each for each in messages_of(name) if each.state != "removed"]
    async with store_on(root) as store:
        redeliver(root, files=Files())
        new = await publish(store, b"new")
        found = {}
        order = []
        for queue in {each.queue for each in expected}:
            while (got := await store.receive(QueueName(queue), 1000)) is not None:
                order.append(got.message_id)
                found[got.message_id] = (
                    got.queue,
                    await body_of(store, got),
                    got.content_type,
                    got.receive_count,
                    dict(got.properties),
                )

    assert found.pop(new)[1] == b"new"
    older = [order.index(MessageId(each.message_id)) for each in expected if each.queue == ORDERS]
    assert order.index(new) > max(older)
    assert found == {
        each.message_id: (each.queue, each.body, each.type, each.count + 1, each.properties)
        for each in expected
    }


async def test_what_was_removed_stays_removed(root: Path, name: str) -> None:
    async with store_on(root) as store:
        for each in messages_of(name):
            if each.state == "removed":
                await store.remove(QueueName(each.queue), MessageId(each.message_id))
                with pytest.raises(MessageNotFound):
                    await store.remove(QueueName(each.queue), MessageId("unknown"))


async def test_lease_of_the_old_version_still_removes(root: Path, name: str) -> None:
    leased = [each for each in messages_of(name) if each.state == "leased"]
    async with store_on(root) as store:
        for each in leased:
            assert each.etag is not None
            lease = int(each.etag.strip('"'), 16)
            await store.remove(
                QueueName(each.queue), MessageId(each.message_id), frozenset({lease})
            )

    assert {path.name for path in (root / "remove").iterdir()} >= {
        f"{each.queue}:{each.message_id}" for each in leased
    }


async def test_format_stays_until_a_message_needs_another(root: Path, name: str) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        await receive(store)

    assert read_format(root) == name.replace("-", " ")


async def test_fsck_finds_nothing_wrong(root: Path, name: str) -> None:
    async with store_on(root):
        pass  # The sweep delivers what was stranded in `new`.

    check = Check(root, Files(), report, lambda done, total: None, settle_seconds=0.05)

    assert list(check.run()) == []
