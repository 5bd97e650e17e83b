"""mq-pipeline as processes that are killed and interrupted, on a server that is killed too: each
message is in the lake once, and a page is whole; count and checksum are the judge."""

from __future__ import annotations

import os
from http.client import HTTPConnection
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.spark.dying.sitecustomize import processes_of
from tests.spark.pipeline.commands import FAULTS, Command, CommandScene, checksum
from tests.support.processes import wait_until
from tests.support.url_site import UrlSite

MESSAGES = 3000
BATCH = 300

pytestmark = [pytest.mark.crash_long, pytest.mark.timeout(900)]


def publish(site: UrlSite) -> list[bytes]:
    bodies = [os.urandom(40) + b"%d" % number for number in range(MESSAGES)]
    site.orders.publish_many(bodies)
    return bodies


def batches_in(lake: Path) -> int:
    """The number of the last batch that is placed, from 1 on; 0 if there is none."""
    numbers = [int(path.stem.rpartition("-")[2]) for path in (lake / "_placing").glob("*.json")]
    return max(numbers, default=-1) + 1


def end_leases(site: UrlSite) -> None:
    """What a killed archive had fetched and not staged would come back in ten minutes."""
    connection = HTTPConnection("127.0.0.1", site.server.port, timeout=60)
    for path in (site.server.root / "delay").iterdir():
        connection.request("GET", f"/orders/messages?id={path.name[7:]}&visibility=0")
        assert connection.getresponse().read() is not None
    connection.close()


def has_workers(command: Command) -> bool:
    """Whether Spark has been started and runs Python, so that the job itself has begun."""
    for pid in processes_of(command.popen.pid):
        try:
            if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        except OSError:
            continue  # It has just ended.
    return False


def in_the_lake(lake: Path) -> list[bytes]:
    files = sorted(lake.glob("queue=*/day=*/*.parquet"))
    return [
        value
        for file in files
        for value in parquet.read_table(file, columns=["value"])["value"].to_pylist()
    ]


@pytest.mark.parametrize("kind", ["url", "root"])
def test_an_archive_that_is_killed_and_interrupted_has_each_message_once(
    kind: str, scene: CommandScene
) -> None:
    published, lake = publish(scene.site), scene.folder / "lake"
    archive = ["archive", *scene.place(kind), "--queue=orders", f"--lake={lake}",
               f"--batch={BATCH}"]  # fmt: skip

    killed = scene.start(*archive, "--continuous", "--every=0.1")
    wait_until(lambda: batches_in(lake) >= 2 or killed.has_ended(), 300)
    killed.kill()
    before = batches_in(lake)
    assert 2 <= before < MESSAGES // BATCH, killed.end_of_log()
    end_leases(scene.site)

    interrupted = scene.start(*archive, "--continuous", "--every=0.1")
    wait_until(lambda: batches_in(lake) > before or interrupted.has_ended(), 300)
    scene.strike("SIGINT", interrupted)

    scene.site.orders.publish(b"the last one")
    last = scene.start(*archive)
    assert last.wait() == 0, last.end_of_log()

    archived = in_the_lake(lake)
    assert len(archived) == MESSAGES + 1
    assert checksum(archived) == checksum([*published, b"the last one"])
    assert scene.site.orders.counts()[1:4] == (0, 0, 0)


@pytest.mark.parametrize("kind", ["url", "root"])
def test_an_archive_whose_server_is_restarted_goes_on_and_has_each_message_once(
    kind: str, scene: CommandScene
) -> None:
    published, lake = publish(scene.site), scene.folder / "lake"
    command = scene.start(
        "archive", *scene.place(kind), "--queue=orders", f"--lake={lake}", f"--batch={BATCH}"
    )

    wait_until(lambda: batches_in(lake) >= 2 or command.has_ended(), 300)
    scene.strike("restart", command)

    assert len(in_the_lake(lake)) == MESSAGES
    assert checksum(in_the_lake(lake)) == checksum(published)


@pytest.mark.parametrize("kind", ["url", "root"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_report_that_is_stopped_leaves_a_whole_page_and_takes_nothing(
    fault: str, kind: str, scene: CommandScene
) -> None:
    count = 20 * MESSAGES
    scene.site.orders.publish_many([b"%d" % number for number in range(count)])
    place = [each for each in scene.place(kind) if not each.startswith("--staging")]
    report = ["report", *place, "--queue=orders", "--html=report.html"]
    page = scene.folder / "report.html"
    page.write_text("old</html>\n")

    stopped = scene.start(*report)
    wait_until(lambda: has_workers(stopped) or stopped.has_ended(), 300)
    scene.strike(fault, stopped)
    assert page.read_text().endswith("</html>\n")
    again = scene.start(*report)
    assert again.wait() == 0, again.end_of_log()

    assert f"{count:,}" in page.read_text()
    assert list(scene.folder.glob(".*")) == []
    assert scene.site.orders.counts()[1:4] == (count, 0, 0)
