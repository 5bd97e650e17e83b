"""Messages older than the ttl of their queue: removed unseen, and never early."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mq.commit.blocking import BlockingCommitter
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import MessageNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held, hold_in
from mq.spool.queue.settings_file import change_settings
from mq.spool.spool import Spool
from mq.store import by_id
from mq.store.publishing.publish import publish
from mq.store.queue import expiry
from mq.store.queue.expiry import expire, queues_to_expire
from mq.store.receiving.receive import receive
from mq.store.shared_state import Workspace
from tests.support.faults import WatchedFiles
from tests.support.messages import SECOND_NS, names_in
from tests.support.processes import wait_until
from tests.support.stores import draft_of

ORDERS = QueueName("orders")
HOUR_NS = 3600 * SECOND_NS
SHORT = "0.01"
"""A ttl that is soon over."""


class Host:
    """A machine with a server on the root, whose clock is this far ahead."""

    def __init__(self, spool: Spool, ahead_ns: int = 0) -> None:
        config = ServerConfig(root=spool.root)
        self.work = Workspace(
            spool, config, lambda: None, clock_ns=lambda: time.time_ns() + ahead_ns
        )
        self.pauses: list[float] = []
        self._committer = BlockingCommitter(
            None, self.work.begin_round, self.work.end_calls, self.pauses.append
        )

    def publish(self, body: bytes = b"body") -> MessageId:
        return self._committer.run(publish(self.work, ORDERS, draft_of(body))).message_id

    def receive(self) -> MessageId | None:
        received = self._committer.run(receive(self.work, ORDERS))
        return None if received is None else received.message_id

    def expire(self) -> None:
        self._committer.run(expire(self.work, ORDERS))

    def take(self, message_id: MessageId) -> None:
        self._committer.run(by_id.take(self.work, ORDERS, message_id, None, None))

    def live_to(self, ttl: str) -> None:
        change_settings(self.work.spool, ORDERS, {"ttl": ttl})
        self.work.settings.forget(ORDERS)


@pytest.fixture
def on_host(open_spool: Callable[[Files], Spool], spool: Spool) -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def make(ahead_ns: int = 0) -> Host:
        hosts.append(Host(open_spool(WatchedFiles()), ahead_ns))
        return hosts[-1]

    yield make
    for host in hosts:
        host.work.ready.close()


@pytest.fixture
def host(on_host: Callable[..., Host]) -> Host:
    return on_host()


def _outlived(root: Path, host: Host) -> MessageId:
    """Publish a message, which is soon too old."""
    message_id = host.publish()
    _pass_time(root / "queues/orders" / message_id)
    host.live_to(SHORT)
    return message_id


def _pass_time(path: Path) -> None:
    """Wait until a file is older than SHORT."""
    born = path.stat().st_ctime_ns
    wait_until(lambda: time.time_ns() > born + float(SHORT) * SECOND_NS + SECOND_NS // 50)


def test_what_is_too_old_is_removed_in_place_of_received(root: Path, host: Host) -> None:
    old = [host.publish() for _ in range(2)]
    _pass_time(root / "queues/orders" / old[-1])
    host.live_to(SHORT)

    assert host.receive() is None

    assert names_in(root / "remove") == [f"orders:{each}" for each in old]
    counted = host.work.counts.of(ORDERS)
    assert (counted.expired, counted.removed, counted.received) == (2, 0, 0)


def test_what_is_not_too_old_is_received(host: Host) -> None:
    host.live_to("60")
    message_id = host.publish()

    assert host.receive() == message_id
    assert host.work.counts.of(ORDERS).expired == 0


def test_without_a_ttl_nothing_is_too_old(root: Path, host: Host) -> None:
    message_id = host.publish()
    _pass_time(root / "queues/orders" / message_id)

    host.expire()

    assert host.receive() == message_id
    assert queues_to_expire(host.work) == []
    host.live_to("60")
    assert queues_to_expire(host.work) == [ORDERS]


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, HOUR_NS])
def test_a_publisher_with_a_wrong_clock_loses_nothing_early(
    on_host: Callable[..., Host], ahead_ns: int
) -> None:
    publisher, server = on_host(ahead_ns), on_host()
    server.live_to("600")
    message_id = publisher.publish()

    server.expire()

    assert server.receive() == message_id


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, HOUR_NS])
def test_a_server_with_a_wrong_clock_removes_nothing_early(
    on_host: Callable[..., Host], ahead_ns: int
) -> None:
    publisher, server = on_host(), on_host(ahead_ns)
    server.live_to("600")
    message_id = publisher.publish()

    server.expire()
    server.take(message_id)


def test_where_no_births_are_kept_the_last_move_counts(
    root: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "birth_ns", lambda path: None)
    message_id = host.publish()
    path = root / "queues/orders" / message_id
    _pass_time(path)
    host.live_to(SHORT)
    path.chmod(0o600)  # sets its ctime, as a move does

    host.live_to("0.5")
    host.expire()
    assert path.exists()
    host.live_to(SHORT)
    _pass_time(path)
    host.expire()

    assert not path.exists()


def test_a_message_that_is_too_old_cannot_be_taken_by_id(root: Path, host: Host) -> None:
    message_id = host.publish()
    _pass_time(root / "queues/orders" / message_id)
    host.live_to(SHORT)

    with pytest.raises(MessageNotFound):
        host.take(message_id)

    assert names_in(root / "remove") == [f"orders:{message_id}"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_message_that_is_too_old_to_be_taken_by_id_does_not_stay_locked(
    open_spool: Callable[[Files], Spool], spool: Spool, fails: bool
) -> None:
    files = WatchedFiles()
    host = Host(open_spool(files))
    message_id = host.publish()
    _pass_time(spool.root / "queues/orders" / message_id)
    host.live_to(SHORT)
    if fails:
        files.fail("stamp")

    with pytest.raises(StoreUnavailable if fails else MessageNotFound):
        host.take(message_id)

    place = (Folder.QUEUES, f"orders/{message_id}")
    if not fails:
        place = (Folder.REMOVE, f"orders:{message_id}")
    held = hold_in(spool, *place)
    assert isinstance(held, Held)
    held.close()
    host.work.ready.close()


def test_a_message_that_somebody_holds_stays_and_keeps_no_other_from_going(
    root: Path, host: Host, spool: Spool
) -> None:
    """Beside another server, which is just looking at the oldest one, the next was received."""
    held_id, behind = host.publish(), host.publish()
    _pass_time(root / "queues/orders" / behind)
    host.live_to(SHORT)

    held = hold_in(spool, Folder.QUEUES, f"orders/{held_id}")
    assert isinstance(held, Held)
    with held:
        assert host.receive() is None
    assert names_in(root / "remove") == [f"orders:{behind}"]

    host.expire()

    assert names_in(root / "remove") == [f"orders:{held_id}", f"orders:{behind}"]


def test_many_are_removed_in_turns_with_others(root: Path, host: Host) -> None:
    for _ in range(250):
        host.publish()
    last = host.publish()
    _pass_time(root / "queues/orders" / last)
    host.live_to(SHORT)
    fresh = host.publish()

    host.expire()

    assert len(host.pauses) == 2
    assert names_in(root / "queues/orders") in ([fresh], [])


def test_an_error_of_the_disk_removes_nothing(
    root: Path, open_spool: Callable[[Files], Spool], spool: Spool
) -> None:
    files = WatchedFiles()
    host = Host(open_spool(files))
    message_id = _outlived(root, host)
    files.fail("rename", code=errno.ENOSPC)

    with pytest.raises(Exception, match="No space"):
        host.expire()

    assert names_in(root / "queues/orders") == [message_id]
    host.work.ready.close()


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_message_that_the_disk_did_not_give_goes_the_next_time(
    root: Path, open_spool: Callable[[Files], Spool], spool: Spool, code: int
) -> None:
    """Nothing makes the server list the folder again."""
    files = WatchedFiles()
    host = Host(open_spool(files))
    message_id = _outlived(root, host)
    files.fail("open_message", code=code)

    with suppress(StoreUnavailable):
        host.expire()
    host.expire()

    assert names_in(root / "remove") == [f"orders:{message_id}"]
    host.work.ready.close()


def test_a_disk_without_room_for_a_file_lets_messages_expire(
    root: Path, open_spool: Callable[[Files], Spool], spool: Spool
) -> None:
    files = WatchedFiles()
    host = Host(open_spool(files))
    message_id = _outlived(root, host)
    files.fail("create", "open_unnamed", code=errno.ENOSPC, times=10)

    assert host.receive() is None

    assert names_in(root / "remove") == [f"orders:{message_id}"]
    host.work.ready.close()
