"""Batches of one message, which need no set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mq.config import SECOND_NS, SMALL_BODY_BYTES
from mq.errors import IdTaken
from mq.names import MessageId
from mq.store.publishing.publish import Entry
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, draft_of, drain, store_on

OWN = MessageId("own")


@pytest.mark.parametrize("delay_seconds", [0, 1000])
@pytest.mark.parametrize("own", [None, OWN])
async def test_a_small_message_has_no_set(
    root: Path, own: MessageId | None, delay_seconds: int
) -> None:
    files = WatchedFiles()
    draft = replace(draft_of(b"body", own), delay_ns=delay_seconds * SECOND_NS)
    async with store_on(root, files) as store:
        made = files.calls["make_folder"]

        [published] = await store.publish_batch(ORDERS, [Entry(1, draft)])
        [again] = await store.publish_batch(ORDERS, [Entry(1, draft)])

        assert files.calls["make_folder"] == made
        assert (published.visible_ns is not None) is (delay_seconds > 0)
        assert again.is_duplicate is (own is not None)
        assert (again == published._replace(is_duplicate=True)) is (own is not None)
        assert names_in(root / "new") == []


async def test_a_long_message_is_written_by_a_worker(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        made = files.calls["make_folder"]
        entry = Entry(1, draft_of(bytes(SMALL_BODY_BYTES + 1)))

        [published] = await store.publish_batch(ORDERS, [entry])

        assert files.calls["make_folder"] == made + 1
        assert await drain(store) == [published.message_id]


async def test_its_line_is_named_if_its_id_is_taken(root: Path) -> None:
    """The error says what that of a longer batch says."""
    other = Entry(7, draft_of(b"other", OWN))
    async with store_on(root) as store:
        await store.publish(ORDERS, draft_of(b"body", OWN))

        errors = []
        for entries in [other], [other, Entry(8, draft_of(b"body"))]:
            with pytest.raises(IdTaken, match=r"line 7: .*own.*another body") as raised:
                await store.publish_batch(ORDERS, entries)
            errors.append(f"{raised.value}")

        assert errors[0] == errors[1]
