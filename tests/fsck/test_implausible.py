"""fsck: seals that cannot be true."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mq.spool.spool import Spool
from tests.support.fsck import Fsck
from tests.support.messages import DAY_NS, SECOND_NS, read_seal, seal_of, write_message
from tests.support.processes import wait_until


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


@pytest.mark.parametrize("name", ["queues/orders/1", "delay/orders:1"])
@pytest.mark.parametrize(
    ("claim", "detail"),
    [
        (((1 << 32) - 1, 0), "received 4294967295 times"),
        ((1 << 31, 0), "received 2147483648 times"),
        ((3, 60_000), "published 59999 days from now"),
        ((3, 3), "published 2 days from now"),
    ],
)
def test_a_seal_that_says_what_cannot_be_is_written_anew(
    root: Path, fsck: Fsck, name: str, claim: tuple[int, int], detail: str
) -> None:
    """Only the body has a checksum."""
    count, days = claim
    now_ns = time.time_ns()
    published_ns = now_ns + days * DAY_NS
    path = write_message(
        root / name,
        seal=seal_of(b"body", count=count, lease=7, published_ns=published_ns),
        due_in_seconds=1000,
    )

    fsck.assert_mends("seal", name, detail, "a new seal was written")

    seal = read_seal(path)
    assert seal.receive_count == (count if days else 0)
    assert seal.lease == 7
    assert seal.published_ns <= time.time_ns()
    assert path.read_bytes() == b"body"
    assert path.stat().st_mtime_ns > now_ns + 900 * SECOND_NS


def test_a_message_that_is_due_stays_due(root: Path, fsck: Fsck) -> None:
    """Its stamp is older than the new seal now, and would not count."""
    name = "delay/orders:1"
    seal = seal_of(b"body", published_ns=time.time_ns() + 9 * DAY_NS)

    def is_stamped() -> bool:
        status = write_message(root / name, seal=seal, due_in_seconds=0.1).stat()
        return status.st_ctime_ns < status.st_mtime_ns

    wait_until(is_stamped)
    wait_until(lambda: time.time_ns() > (root / name).stat().st_mtime_ns)

    fsck.assert_mends("seal", name, "published 8 days from now", "a new seal was written")

    status = (root / name).stat()
    assert status.st_ctime_ns < status.st_mtime_ns < time.time_ns() + 2 * SECOND_NS


def test_a_clock_that_is_behind_costs_no_message_its_place(
    orders: Path, fsck: Fsck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a clock of its own begins in 1970. Its files know better."""
    paths = [
        write_message(orders / str(number), seal=seal_of(b"body", published_ns=time.time_ns()))
        for number in range(3)
    ]
    before = [read_seal(path) for path in paths]
    behind = SimpleNamespace(time_ns=lambda: time.time_ns() - 20_000 * DAY_NS)
    monkeypatch.setattr("mq.fsck.implausible.time", behind)

    found = fsck.mend()

    assert [(each.kind, each.repair) for each in found] == [("seal", None)] * 3
    assert "not repaired: the file was last changed in the future too" in found[0].detail
    assert [read_seal(path) for path in paths] == before
