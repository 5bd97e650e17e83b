"""The staging of a job, where other hosts work on it too."""

from __future__ import annotations

from contextlib import closing

import pytest

from mq.spool.network_files import NetworkFiles
from pyspark_mq.by_url.intake import Intake
from pyspark_mq.options.options import BATCH_WRITE, parse_options
from pyspark_mq.writing.write import forward
from tests.support.messages import seal_of, write_message
from tests.support.url_site import UrlSite


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[NetworkFiles]:
    """All is on a network file system. What is synced there, is noted."""
    found: list[NetworkFiles] = []
    sync = NetworkFiles.sync_file_system

    def note(files: NetworkFiles, fd: int) -> None:
        found.append(files)
        sync(files, fd)

    monkeypatch.setattr("mq.spool.network_files.file_system_kind", lambda _: "nfs4")
    monkeypatch.setattr(NetworkFiles, "sync_file_system", note)
    return found


def test_what_is_fetched_is_synced_as_the_network_file_system_wants_it(
    site: UrlSite, synced: list[NetworkFiles]
) -> None:
    ids = site.orders.publish_many(["one", "two"])
    root = site.prepare("in")
    synced.clear()

    with closing(Intake(root, site.addresses(), ["orders"])) as intake:
        assert intake.fetch(None, None) == 2

    assert synced
    assert site.staged("in", "queues") == sorted(f"orders/{each}" for each in ids)


def test_what_is_published_is_synced_as_the_network_file_system_wants_it(
    site: UrlSite, synced: list[NetworkFiles]
) -> None:
    folder = site.prepare("out") / "queues/orders"
    folder.mkdir()
    write_message(folder / "one", b"one", seal=seal_of(b"one"))
    synced.clear()

    forward(parse_options(site.options, BATCH_WRITE))

    assert synced
    assert site.bodies() == [b"one"]
    assert site.staged("out", "queues") == []
