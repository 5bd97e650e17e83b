"""The way in while the disk fails: what could not be synced is not removed at the server."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from mq.client.by_id import release_now
from mq.disk.files import Files
from pyspark_mq.by_url.intake import LANES, Intake
from tests.support.faults import WatchedFiles, raising
from tests.support.url_site import UrlSite

StartIntake = Callable[..., Intake]


def release_all(site: UrlSite) -> None:
    session, queue = site.mq._session, site.orders.name
    while hidden := site.orders.peek(1000, state="leased"):
        for each in hidden:
            session.run(release_now(session.context, queue, each.id, None))


def test_what_could_not_be_synced_comes_again_from_the_server(
    site: UrlSite, start_intake: StartIntake
) -> None:
    ids = site.publish(3)
    files = WatchedFiles()
    files.fail("sync_file_system")

    with pytest.raises(OSError, match="Input/output error"):
        start_intake(files).fetch(None, None)

    assert site.staged("in", "delay") == site.staged("in", "queues") == []
    assert site.orders.counts().leased == 3
    release_all(site)
    assert start_intake().fetch(None, None) == 3
    assert site.staged("in", "queues") == sorted(f"orders/{each}" for each in ids)


def test_what_lies_beside_a_message_that_cannot_be_written_is_synced_too(
    site: UrlSite, start_intake: StartIntake
) -> None:
    """Otherwise the next sync succeeds without it, and it is removed at the server."""
    ids = site.publish(3)
    files = WatchedFiles()
    intake = start_intake(files)
    files.fail("sync_file_system")
    writes = itertools.count(1)
    files.before["write"] = lambda *_: raising(errno.ENOSPC)() if next(writes) == 2 else None

    with pytest.raises(OSError, match="Input/output error"):
        intake.fetch(None, None)

    assert site.staged("in", "delay") == site.staged("in", "queues") == []
    assert site.orders.counts().leased == 3
    release_all(site)
    assert intake.fetch(None, None) == 3
    assert site.staged("in", "queues") == sorted(f"orders/{each}" for each in ids)


def test_what_a_dead_driver_left_and_cannot_be_synced_comes_again_from_the_server(
    site: UrlSite, start_intake: StartIntake
) -> None:
    """All but what the dead driver had removed there, which was durable by then."""
    ids = site.publish(3)
    messages = site.orders.receive_many(10, visibility=60)
    start_intake().stage(site.orders.name, messages)
    messages[0].ack()
    files = WatchedFiles()
    intake = start_intake(files)
    files.fail("sync_file_system")

    with pytest.raises(OSError, match="Input/output error"):
        intake.fetch(None, None)

    assert site.staged("in", "delay") == []
    assert site.staged("in", "queues") == [f"orders/{ids[0]}"]
    assert site.orders.counts().leased == 2
    release_all(site)
    assert intake.fetch(None, None) == 2
    assert site.staged("in", "queues") == sorted(f"orders/{each}" for each in ids)


class ReportsOnce(Files):
    """The disk fails beneath what several threads have staged. As the kernel does, each descriptor
    reports that once (syncfs(2))."""

    def __init__(self) -> None:
        super().__init__()
        self._syncs = itertools.count(1)
        self._all = threading.Barrier(LANES)
        self._reported = set[int]()

    def sync_file_system(self, fd: int) -> None:
        if next(self._syncs) > 1:  # The first request is made by one thread.
            with suppress(threading.BrokenBarrierError):
                self._all.wait(20)
            if fd not in self._reported:
                self._reported.add(fd)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_file_system(fd)


def test_each_thread_that_has_staged_something_learns_that_the_disk_has_failed(
    site: UrlSite, start_intake: StartIntake
) -> None:
    for _ in range(1 + LANES):
        site.publish(1000)

    with pytest.raises(OSError, match="Input/output error"):
        start_intake(ReportsOnce()).fetch(None, None)

    assert len(site.staged("in", "queues")) == 1000
    assert site.staged("in", "delay") == []
    assert site.orders.counts().leased == LANES * 1000


class FailsOnce(Files):
    """At the third sync: by then several threads bring messages."""

    def __init__(self) -> None:
        super().__init__()
        self._syncs = itertools.count(1)

    def sync_file_system(self, fd: int) -> None:
        if next(self._syncs) == 3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_file_system(fd)


def test_of_several_threads_one_may_fail_and_nothing_is_lost_or_doubled(
    site: UrlSite, start_intake: StartIntake
) -> None:
    ids = [each for _ in range(4) for each in site.publish(1000)]
    with pytest.raises(OSError, match="Input/output error"):
        start_intake(FailsOnce()).fetch(None, None)
    assert site.staged("in", "delay") == []
    assert site.orders.counts().leased == 1000
    release_all(site)

    start_intake().fetch(None, None)

    assert site.staged("in", "queues") == sorted(f"orders/{each}" for each in ids)
    assert site.staged("in", "delay") == []
    assert site.orders.counts()[1:4] == (0, 0, 0)
