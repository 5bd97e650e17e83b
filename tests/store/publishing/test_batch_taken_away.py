"""A batch on two machines, where the locks of folders do not reach the other one."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mq.ctl.ways.by_root import RootAccess
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Actor, Folder
from mq.spool.queue.queues import begin_deletion, finish_deletion, make_queue
from mq.spool.root import visit_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.faults import CHANGES, FarFiles, OldFiles, WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, batch_of, draft_of, store_on

BODIES = [b"1", b"2", b"3"]


def _sweep(far: Spool) -> None:
    Sweeper(far, lambda *_: None).sweep()


def _delete(far: Spool) -> None:
    if begin_deletion(far, ORDERS):
        finish_deletion(far, ORDERS)


def _sweep_and_delete(far: Spool) -> None:
    _sweep(far)
    _delete(far)


def _make_again(far: Spool) -> None:
    _sweep_and_delete(far)
    make_queue(far.files, far.fd(Folder.QUEUES), ORDERS)


Act = Callable[[Spool], None]


@contextmanager
def _from_afar(root: Path, files: WatchedFiles, number: int, act: Act) -> Iterator[list[int]]:
    """Another machine does something before the change of that number; the list that this yields is
    empty until then."""
    left, acted = iter(range(number)), list[int]()
    with closing(visit_root(root, FarFiles(), Actor.SERVER)) as far:

        def before_change(*_: object) -> None:
            if not acted and next(left, None) is None:
                acted.append(number)
                act(far)

        files.before |= dict.fromkeys(CHANGES, before_change)
        yield acted
        files.before.clear()


async def _batch_by_server(root: Path, files: WatchedFiles, number: int, act: Act) -> bool | None:
    async with store_on(root, files) as store:
        with _from_afar(root, files, number, act) as acted:
            try:
                await store.publish_batch(ORDERS, batch_of(*map(draft_of, BODIES)))
            except StoreUnavailable:
                return False
            return True if acted else None


async def _batch_by_mqctl(root: Path, files: WatchedFiles, number: int, act: Act) -> bool | None:
    with closing(RootAccess(root, files)) as access:
        access.create_queue(ORDERS)
        with _from_afar(root, files, number, act) as acted:
            try:
                access.publish_batch(ORDERS, b"".join(b'{"body":"%s"}\n' % b for b in BODIES))
            except StoreUnavailable:
                return False
            return True if acted else None


SendBatch = Callable[[Path, WatchedFiles, int, Act], Coroutine[Any, Any, bool | None]]
"""True if it was published, None if nobody came in between."""

senders = pytest.mark.parametrize("send", [_batch_by_server, _batch_by_mqctl])
kinds = pytest.mark.parametrize("files", [WatchedFiles, OldFiles], indirect=True)


@kinds
@senders
async def test_a_batch_that_a_far_sweep_takes_away_is_unavailable_not_without_queue(
    tmp_path: Path, send: SendBatch, files: WatchedFiles
) -> None:
    outcomes: list[bool | None] = []
    while None not in outcomes:
        root = tmp_path / str(len(outcomes))

        outcomes.append(await send(root, files, len(outcomes), _sweep))

        found = [path.read_bytes() for path in (root / "queues" / "orders").iterdir()]
        assert sorted(found) == (BODIES if outcomes[-1] is not False else [])
        assert os.listdir(root / "new") == []
    assert {True, False} <= set(outcomes)


@kinds
@senders
async def test_a_batch_whose_queue_is_made_again_meanwhile_is_not_without_queue(
    tmp_path: Path, send: SendBatch, files: WatchedFiles
) -> None:
    outcomes: list[bool | None] = []
    while None not in outcomes:
        root = tmp_path / str(len(outcomes))

        outcomes.append(await send(root, files, len(outcomes), _make_again))

        if outcomes[-1] is False:
            assert names_in(root / "queues" / "orders") == []
    assert {True, False} <= set(outcomes)


@kinds
@senders
async def test_a_batch_that_goes_with_its_queue_is_told_that_there_is_none(
    tmp_path: Path, send: SendBatch, files: WatchedFiles
) -> None:
    number, refused = 0, 0
    while True:
        root = tmp_path / str(number)
        try:
            if await send(root, files, number, _sweep_and_delete) is None:
                break
        except QueueNotFound:
            refused += 1
            assert names_in(root / "queues") == []
        number += 1
    assert refused > len(BODIES)
