"""A peek where files cannot be opened."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from tests.support.faults import WatchedFiles
from tests.support.stores import ORDERS, publish, store_on


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE])
async def test_what_alone_cannot_be_opened_is_passed_over(root: Path, code: int) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        files.fail("open_to_look", code=code)

        [found] = await store.peek(ORDERS, 1)

        assert found.message_id == ids[1]


async def test_while_no_file_can_be_opened_the_store_is_unavailable(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        files.fail("open_to_look", code=errno.EMFILE, times=1000)

        with pytest.raises(StoreUnavailable):
            await store.peek(ORDERS, 2)

        files.before.clear()
        assert [each.message_id for each in await store.peek(ORDERS, 2)] == ids[:2]
