"""`mqctl release --group`: what a Spark query had claimed is ready again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import ExitCode
from mq.lifecycle import Actor
from mq.names import MessageId, QueueName
from mq.spool.root import visit_root
from mq.spool.spark.claims import Group
from tests.support.mqctl import Ctl, assert_refused
from tests.support.processes import wait_until

ORDERS = QueueName("orders")


@pytest.fixture
def ctl(root: Path) -> Ctl:
    """mqctl on a root with the queue `orders` and two messages."""
    made = Ctl(f"--root={root}")
    made.ok("create", "orders")
    for body in ("one", "two"):
        made.ok("send", "orders", body)
    return made


@pytest.fixture
def group(ctl: Ctl, root: Path) -> Iterator[Group]:
    """The group `lake`, with one batch sealed and one open."""
    spool = visit_root(root, Files(), Actor.SPARK)
    made = Group(spool, "lake", "driver")
    made.make()
    made.fence()
    for batch, message_id in enumerate(sorted(spool.names_in_queue(ORDERS)), start=1):
        claim = made.begin(batch, 1)
        claim.take(ORDERS, MessageId(message_id), lambda _: 0)
        if batch == 1:
            claim.seal()
    yield made
    spool.close()


def test_an_open_claim_is_given_back_and_a_sealed_one_is_named(group: Group, ctl: Ctl) -> None:
    done = ctl.ok("release", "--group", "lake")

    assert b"gave back 1 message of group lake; sealed and kept: batch 1." in done.out
    assert b"--force" in done.out
    assert ctl.ok("info", "orders", "--json").json()["ready"] == 1


def test_force_gives_back_sealed_claims_too(group: Group, ctl: Ctl) -> None:
    done = ctl.ok("release", "--group", "lake", "--force", "--json")

    assert done.json() == {"group": "lake", "given_back": 2, "kept": 0, "sealed": []}
    assert ctl.ok("info", "orders", "--json").json()["ready"] == 2


@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_a_batch_that_is_done_is_not_given_back(
    group: Group, ctl: Ctl, root: Path, flags: tuple[str, ...]
) -> None:
    """Its driver died before it could put the batch away."""
    claims = root / "spark/claims/lake"
    (claims / "floor.0").rename(claims / "floor.1")

    done = ctl.ok("release", "--group", "lake", "--json", *flags)

    assert done.json() == {"group": "lake", "given_back": 1, "kept": 0, "sealed": []}
    assert ctl.ok("info", "orders", "--json").json()["ready"] == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), {"group": "lake", "given_back": 1, "kept": 0, "sealed": [1]}),
        (("--force",), {"group": "lake", "given_back": 2, "kept": 0, "sealed": []}),
    ],
)
def test_a_batch_that_was_done_and_not_synced_counts_as_sealed(
    group: Group, ctl: Ctl, root: Path, flags: tuple[str, ...], said: dict[str, object]
) -> None:
    claims = root / "spark/claims/lake"
    (claims / "floor.0").rename(claims / "floor.1")
    (claims / "1").rename(claims / "1.unsynced")

    assert ctl.ok("release", "--group", "lake", "--json", *flags).json() == said
    assert ctl.ok("info", "orders", "--json").json()["ready"] == said["given_back"]


@pytest.mark.parametrize("marker", ["floor.*", "driver.*", "query.*"])
def test_of_a_damaged_group_all_is_given_back(
    group: Group, ctl: Ctl, root: Path, marker: str
) -> None:
    [path] = (root / "spark/claims/lake").glob(marker)
    path.unlink()

    done = ctl.ok("release", "--group", "lake", "--force", "--json")

    assert done.json() == {"group": "lake", "given_back": 2, "kept": 0, "sealed": []}


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_queue_that_was_deleted_and_made_again_gets_nothing_back(
    group: Group, ctl: Ctl, root: Path, force: tuple[str, ...]
) -> None:
    claimed_ns = max(path.stat().st_ctime_ns for path in root.glob("spark/claims/lake/*/0/*"))
    queue = root / "queues/orders"

    def is_made_later() -> bool:
        """The clock of the kernel goes in ticks."""
        queue.rmdir()
        queue.mkdir()
        return queue.stat().st_mtime_ns > claimed_ns

    wait_until(is_made_later)

    ctl.ok("release", "--group", "lake", *force)

    assert ctl.ok("info", "orders", "--json").json()["ready"] == 0


def test_a_message_that_cannot_be_given_back_is_counted(group: Group, ctl: Ctl, root: Path) -> None:
    [claimed] = root.glob("spark/claims/lake/2.open.*/0/*")
    other = root / "queues/orders" / claimed.name.partition(":")[2]
    other.write_bytes(b"another of that id")

    done = ctl.ok("release", "--group", "lake")

    assert b"gave back 0 messages of group lake; kept 1 message, because the queue" in done.out
    other.unlink()
    done = ctl.ok("release", "--group", "lake", "--json")
    assert done.json() == {"group": "lake", "given_back": 1, "kept": 0, "sealed": [1]}


def test_a_driver_that_runs_is_fenced_off(group: Group, ctl: Ctl) -> None:
    ctl.ok("release", "--group", "lake")

    with pytest.raises(Exception, match="another driver has taken over"):
        group.begin(2, 1)


def test_a_root_with_claims_is_clean(group: Group, ctl: Ctl) -> None:
    assert ctl.ok("fsck").out == b""


def test_a_group_that_does_not_exist_is_named(ctl: Ctl) -> None:
    assert_refused(ctl("release", "--group", "sea"), ExitCode.NOT_FOUND, "there is no group sea")


def test_a_bad_name_is_refused(ctl: Ctl) -> None:
    assert ctl("release", "--group", "../lake").code == ExitCode.USAGE
