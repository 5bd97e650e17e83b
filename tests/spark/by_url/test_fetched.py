"""What a dead driver has left on its way in, before it is removed at the server."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from mq.lifecycle import Folder
from mq.spool.message.held import Opened, look_at
from mq.spool.network_files import NetworkFiles
from mq.spool.spool import Spool
from pyspark_mq.by_url.intake import Intake
from tests.support.url_site import UrlSite


def test_what_another_host_has_left_is_synced_before_it_is_removed_at_the_server(
    site: UrlSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of all that this host has changed does not find it."""
    monkeypatch.setattr("mq.spool.network_files.file_system_kind", lambda _: "nfs4")
    site.orders.publish_many(["one", "two"])
    root, addresses = site.prepare("in"), site.addresses()
    with closing(Intake(root, addresses, ["orders"])) as dead:
        dead.require_queues()
        dead.stage(site.orders.name, site.orders.receive_many(2))
    sync, there = NetworkFiles.sync, dict[int, int]()

    def note(files: NetworkFiles, fd: int) -> None:
        sync(files, fd)
        there[os.fstat(fd).st_ino] = site.orders.counts().leased

    monkeypatch.setattr(NetworkFiles, "sync", note)
    with closing(Intake(root, addresses, ["orders"])) as intake:
        assert intake.settle() == 2

    taken = [path.stat().st_ino for path in (root / "queues/orders").iterdir()]
    assert [there.get(each) for each in taken] == [2, 2]


def test_other_files_and_messages_that_go_meanwhile_are_passed_over(
    site: UrlSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.orders.publish_many(["one", "two"])
    root = site.prepare("in")
    with closing(Intake(root, site.addresses(), ["orders"])) as intake:
        intake.require_queues()
        first, second = site.orders.receive_many(2)
        intake.stage(site.orders.name, [first, second])
        (root / "delay/notes").touch()

        def look_late(spool: Spool, folder: Folder, name: str) -> Opened | None:
            """Another driver has decided about one of them."""
            (root / f"delay/orders:{first.id}").unlink(missing_ok=True)
            return look_at(spool, folder, name)

        monkeypatch.setattr("pyspark_mq.by_url.fetched.look_at", look_late)

        assert intake.settle() == 1

    assert site.staged("in", "queues") == [f"orders/{second.id}"]
    assert site.staged("in", "delay") == ["notes"]
