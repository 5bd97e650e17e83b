"""The way by root, looking only: counts and peeks change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.ctl.ways.by_root import RootAccess
from mq.errors import QueueNotFound
from mq.names import QueueName
from tests.support.faults import PlainFiles
from tests.support.messages import foreign_id, seal_of, write_message
from tests.support.visitors import LARGE, ORDERS, SMALL, send


def test_peek_shows_the_oldest_and_changes_nothing(access: RootAccess, root: Path) -> None:
    sent = [send(access, body) for body in (b"one", LARGE, b"three")]
    write_message(root / "queues" / "orders" / "not a message")
    (root / "queues" / "orders" / "link").symlink_to("nowhere")
    before = state_of(root)

    first_two, everything = look(access, 2), look(access, 100)

    assert first_two == [(sent[0], "ready", b"one"), (sent[1], "ready", LARGE)]
    assert [message_id for message_id, _, _ in everything] == sent
    assert state_of(root) == before


def look(access: RootAccess, limit: int) -> list[tuple[str, str, bytes]]:
    """Id, state and body of the oldest messages."""
    shown = []
    for message in access.peek(ORDERS, limit):
        shown.append((message.message_id, message.state, message.body.read()))
        message.body.close()
    return shown


def state_of(root: Path) -> list[tuple[str, int, int]]:
    """Names, times and modes; reading changes neither."""
    found = [(path, path.lstat()) for path in root.rglob("*")]
    return sorted((str(path), status.st_ctime_ns, status.st_mtime_ns) for path, status in found)


def test_peek_finds_a_message_in_any_state(access: RootAccess, root: Path) -> None:
    leased = send(access)
    received = access.receive(ORDERS, None)
    assert received is not None
    ready, delayed = send(access), foreign_id()
    write_message(root / "delay" / f"orders:{delayed}", seal=seal_of(b"body"), due_in_seconds=60)

    found = {m: access.peek_at(ORDERS, m) for m in (leased, ready, delayed)}

    assert [m.state for m in found.values()] == ["leased", "ready", "delayed"]
    assert [m.lease for m in found.values()] == [received.lease, None, None]
    assert [m.visible_at is None for m in found.values()] == [False, True, False]


def test_peek_shows_a_damaged_message_as_such(access: RootAccess, root: Path) -> None:
    message_id = send(access)
    (root / "queues" / "orders" / message_id).write_bytes(b"Body")

    (message,) = access.peek(ORDERS, 1)

    assert message.is_damaged
    assert (root / "queues" / "orders" / message_id).exists()


def test_messages_without_a_seal_are_sent_received_and_shown(tmp_path: Path) -> None:
    access = RootAccess(tmp_path / "root", PlainFiles())
    access.create_queue(ORDERS)
    message_id = send(access)

    (peeked,) = access.peek(ORDERS, 1)
    received = access.receive(ORDERS, None)
    assert received is not None
    access.remove(ORDERS, message_id, int(str(received.lease), 16))
    access.close()

    assert (peeked.receive_count, peeked.lease) == (None, None)
    assert (received.receive_count, received.body.read()) == (None, SMALL)


def test_counts_are_those_of_each_queue(access: RootAccess, root: Path) -> None:
    send(access)
    send(access)
    access.receive(ORDERS, None)
    write_message(root / "delay" / "orders:1", seal=seal_of(b"body"), due_in_seconds=60)
    access.create_queue(QueueName("orders.dead"))
    write_message(root / "delay" / "orders.dead:1", seal=seal_of(b"body", lease=7))
    write_message(root / "queues" / "README")

    listed = access.list_queues()

    assert [counts[:4] for counts in listed] == [("orders", 1, 1, 1), ("orders.dead", 0, 1, 0)]
    assert listed[0].oldest_age_seconds is not None
    assert 0 <= listed[0].oldest_age_seconds < 60
    assert listed[1].oldest_age_seconds is None
    assert access.describe_queue(ORDERS)[:4] == listed[0][:4]
    with pytest.raises(QueueNotFound):
        access.describe_queue(QueueName("README"))
