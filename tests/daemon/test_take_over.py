"""A root that the Go original wrote is taken over as it lies there, and can be handed back."""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.messages import names_in
from tests.support.mqctl import Ctl
from tests.support.processes import IMPATIENT, Server, wait_until
from tests.support.sources import REPOSITORY
from tests.support.wire import Wire

BODIES = [b"ready 1", b"ready 2", b"new", b"leased"]
REMOVED = b"removed"


def _id_of_the_original(number: int) -> str:
    """A UUIDv1 in lower case, a second after the one before."""
    ticks = 0x1E3213E4AD814AB + number * 10_000_000
    low, middle, high = ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0x0FFF
    return str(uuid.UUID(fields=(low, middle, high | 0x1000, 0xA9, 0xA3, 0x0025904F6E08)))


IDS = [_id_of_the_original(number) for number in range(5)]


@pytest.fixture
def old_root(tmp_path: Path) -> Path:
    """Folders and files as the original makes them: mode 0755, no attributes, written in place;
    messages stranded where its mover and reaper did not run."""
    root = tmp_path / "old"
    for folder in ("new", "queues", "queues/orders", "delay", "remove"):
        (root / folder).mkdir(parents=True, mode=0o755)
    places = ["queues/orders/", "queues/orders/", "new/orders:", "delay/orders:", "remove/orders:"]
    for place, message_id, body in zip(places, IDS, [*BODIES, REMOVED], strict=True):
        path = root / f"{place}{message_id}"
        path.write_bytes(body)
        path.chmod(0o755)
    return root


TakeOver = Callable[[], tuple[Server, Wire]]


@pytest.fixture
def take_over(
    old_root: Path, start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> TakeOver:
    """Start the whole queue on the old root."""

    def start() -> tuple[Server, Wire]:
        server = start_server("--standalone", "--keep=0", root=old_root, module=IMPATIENT)
        return server, connect(server)

    return start


def _receive_all(wire: Wire) -> list[tuple[str, bytes]]:
    found = []
    while (answer := wire.request("GET", "/orders/messages")).status == 200:
        found.append((answer.headers["x-message-id"], answer.body))
    return found


def test_nothing_is_lost_and_the_order_is_kept(old_root: Path, take_over: TakeOver) -> None:
    server, wire = take_over()
    wait_until(lambda: names_in(old_root / "delay") == [])
    published = wire.request("POST", "/orders/messages", b"by MQ").headers["x-message-id"]

    received = _receive_all(wire)

    assert received == [*zip(IDS, BODIES, strict=False), (published, b"by MQ")]
    wait_until(lambda: names_in(old_root / "remove") == [])
    for message_id, _ in received:
        assert wire.request("DELETE", f"/orders/messages/{message_id}").status == 202
    assert 'level=warning event="file left' not in server.log()


def test_what_was_removed_stays_removed(old_root: Path, take_over: TakeOver) -> None:
    _, wire = take_over()

    assert REMOVED not in [body for _, body in _receive_all(wire)]


ODD_QUEUES = ["-dash", "two words", "q" * 81, "ümlaut"]
ODD_FILES = ["new/no-colon", f"new/absent:{IDS[0]}", f"delay/absent:{IDS[1]}", "queues/stray",
             "queues/orders/not an id", f"new/three words:{IDS[2]}", f"delay/-minus:{IDS[3]}",
             f"new/a:b:{IDS[4]}"]  # fmt: skip


@pytest.fixture
def odd_root(old_root: Path) -> Path:
    for queue in ODD_QUEUES:
        (old_root / "queues" / queue).mkdir()
        (old_root / "queues" / queue / IDS[0]).write_bytes(b"odd")
    for name in ODD_FILES:
        (old_root / name).write_bytes(name.encode())
    return old_root


def test_what_cannot_be_placed_is_reported_once_and_left(
    odd_root: Path, take_over: TakeOver
) -> None:
    server, wire = take_over()
    oddities = len(ODD_QUEUES) + len(ODD_FILES)
    wait_until(lambda: server.log().count("file left where it is") >= oddities)
    wire.request("DELETE", "/orders/messages/x")

    for name in [*(f"queues/{queue}" for queue in ODD_QUEUES), *ODD_FILES]:
        assert (odd_root / name).exists()
        mentioned = [line for line in server.log().splitlines() if Path(name).name in line]
        assert len(mentioned) == 1, name
    findings = Ctl("--root", str(odd_root))("fsck").out.decode()
    assert all(queue in findings for queue in ODD_QUEUES)


def test_what_could_not_be_placed_is_received_once_it_has_a_queue(
    odd_root: Path, take_over: TakeOver
) -> None:
    """docs/coming-from.md names two ways: rename it, or make the queue."""
    _, wire = take_over()
    assert wire.request("PUT", "/absent").status == 201
    (odd_root / "queues" / "two words").rename(odd_root / "queues" / "two-words")

    found = [wire.request("GET", "/absent/messages?wait=20").body for _ in range(2)]

    assert sorted(found) == [name.encode() for name in sorted(ODD_FILES) if "absent" in name]
    assert wire.request("GET", "/two-words/messages").body == b"odd"


def test_root_is_handed_back(old_root: Path, take_over: TakeOver) -> None:
    """The original lists a queue's folder, reads what is in it, and finds nothing that came to
    `new`, `delay` or `remove` while it was down."""
    server, wire = take_over()
    wait_until(lambda: len(names_in(old_root / "queues" / "orders")) == 4)
    wire.request("GET", "/orders/messages")
    wire.request("POST", "/orders/messages", b"by MQ")
    wire.request("PUT", "/gone")
    wire.request("POST", "/gone/messages", b"gone")
    wire.request("DELETE", "/gone")
    wait_until(lambda: names_in(old_root / "remove") == [])
    assert server.stop() == ExitCode.OK

    subprocess.run(["sh", "-c", HAND_BACK], cwd=old_root, check=True)

    assert sorted(os.listdir(old_root)) == ["delay", "format", "new", "queues", "remove"]
    queue = old_root / "queues" / "orders"
    bodies = sorted((queue / name).read_bytes() for name in os.listdir(queue))
    assert bodies == sorted([*BODIES, b"by MQ"])
    assert [os.listdir(old_root / folder) for folder in ("new", "delay", "remove")] == [[], [], []]
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in os.listdir(queue))


DOCUMENT = (REPOSITORY / "docs" / "coming-from.md").read_text()
HAND_BACK = DOCUMENT.partition("<!-- hand back -->\n```sh\n")[2].partition("```")[0]
