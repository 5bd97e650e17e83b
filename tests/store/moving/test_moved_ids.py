"""An id that two queues have comes from one to the other by a move, while a server is about to move
what had it there by its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mq.commit.blocking import BlockingCommitter
from mq.commit.operation import Operation
from mq.config import ServerConfig
from mq.errors import LeaseMismatch, MQError, StoreUnavailable
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.burial import DEAD_ATTRIBUTE, MAX_RECEIVES_REASON, Burial
from mq.spool.root import open_root
from mq.store.by_id import Guard, release
from mq.store.moving.move import Moving
from mq.store.moving.move_many import move_by_id
from mq.store.moving.redrive import Redriven, redrive
from mq.store.receiving.receive import receive
from mq.store.removing.remove import remove
from mq.store.removing.remove_under_lease import remove_leased
from mq.store.shared_state import Workspace
from tests.support.faults import WatchedFiles
from tests.support.messages import SECOND_NS, seal_of, write_message
from tests.support.stores import ORDERS

T = TypeVar("T")
Act = Callable[[Workspace], Operation[Any]]

OTHER, THIRD = QueueName("other"), QueueName("third")
OWN = MessageId("own")
LEASE, HOUR_NS = 7, 3600 * SECOND_NS


class PlainServer:
    """A server whose operations run at once, and sync nothing."""

    def __init__(self, root: Path, closer: ExitStack) -> None:
        self.files = WatchedFiles()
        spool = closer.enter_context(closing(open_root(root, 0o700, self.files)[0]))
        self.work = Workspace(spool, ServerConfig(root=root), lambda: None)
        closer.enter_context(closing(self.work.ready))
        self._committer = BlockingCommitter(
            begin_round=self.work.begin_round, end_calls=self.work.end_calls, sleep=lambda _: None
        )

    def run(self, operation: Operation[T]) -> T:
        return self._committer.run(operation)


class TwoQueues:
    """Queue `orders` has a message under a lease, and `other` one with the same id, which is
    ready."""

    def __init__(self, root: Path, closer: ExitStack) -> None:
        self.root = root
        self.one, self.other = PlainServer(root, closer), PlainServer(root, closer)
        for queue in (ORDERS, OTHER, THIRD):
            (root / "queues" / queue).mkdir()
        self.leased = root / "delay" / file_name(ORDERS, OWN)
        write_message(self.leased, b"first", seal=seal_of(b"first", lease=LEASE), due_in_seconds=99)
        write_message(root / "queues" / OTHER / OWN, b"second", seal=seal_of(b"second"))
        self.outcome: object = None
        self.left: list[Path] = []

    def second(self) -> list[Path]:
        """Where the second message is."""
        files = [path for path in self.root.glob("[dnqr]*/**/*") if path.is_file()]
        return [path for path in files if path.read_bytes() == b"second"]

    def bring_the_second(self, *_: object) -> None:
        """Remove the first one, which needs no lease, move the second one into its place, and
        receive it."""
        self.one.files.before.clear()
        other = self.other
        other.run(remove(other.work, ORDERS, OWN))
        [self.outcome] = other.run(move_by_id(other.work, Moving(OTHER, ORDERS), [OWN], None))
        if self.outcome is None:
            assert other.run(receive(other.work, ORDERS, HOUR_NS)) is not None
        self.left = self.second()


@pytest.fixture
def two(root: Path) -> Iterator[TwoQueues]:
    with ExitStack() as closer:
        yield TwoQueues(root, closer)


GUARD = Guard(frozenset({LEASE}))
ACTS: dict[str, Act] = {
    "remove": lambda work: remove_leased(work, ORDERS, OWN, GUARD.leases),
    "move": lambda work: move_by_id(work, Moving(ORDERS, THIRD), [OWN], GUARD),
    "release": lambda work: release(work, ORDERS, OWN, GUARD),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_comes_to_the_name_is_not_moved_in_place_of_what_had_it(
    two: TwoQueues, act: Act
) -> None:
    """The move waits for the process that has the lock of the removed one."""
    two.one.files.before["rename"] = two.bring_the_second
    with suppress(MQError):
        two.one.run(act(two.one.work))

    assert two.second() == two.left
    assert isinstance(two.outcome, StoreUnavailable)
    assert two.left == [two.root / "queues" / OTHER / OWN]

    two.bring_the_second()
    assert two.outcome is None
    assert two.second() == two.left == [two.leased]


def test_a_removal_whose_message_was_removed_beside_another_takes_no_third(
    two: TwoQueues,
) -> None:
    """In `remove` the name was taken, so what was removed does not keep the next one from it."""
    write_message(two.root / "remove" / file_name(ORDERS, OWN), b"zeroth", seal=seal_of(b"zeroth"))
    two.one.files.before["rename"] = two.bring_the_second

    with pytest.raises(LeaseMismatch):
        two.one.run(remove_leased(two.one.work, ORDERS, OWN, GUARD.leases))

    assert two.second() == two.left == [two.leased]
    assert os.path.exists(two.root / "remove" / f"{file_name(ORDERS, OWN)}~2")


def test_a_redrive_takes_no_dead_letter_of_another_queue_that_has_the_id_by_now(
    two: TwoQueues,
) -> None:
    """Between its look and its move the dead letter is removed, and the other one dies."""
    dead = two.root / "queues" / THIRD / OWN
    two.leased.unlink()
    write_message(dead, b"dead", seal=seal_of(b"dead"))
    os.setxattr(dead, DEAD_ATTRIBUTE, Burial(ORDERS, MAX_RECEIVES_REASON).pack())

    def let_the_other_one_die(*_: object) -> None:
        two.one.files.before.clear()
        other, dying = two.other, Moving(OTHER, THIRD, MAX_RECEIVES_REASON)
        other.run(remove(other.work, THIRD, OWN))
        assert other.run(move_by_id(other.work, dying, [OWN], None)) == [None]

    two.one.files.before["open_message"] = let_the_other_one_die
    redriven = two.one.run(redrive(two.one.work, THIRD, 1, frozenset()))

    assert two.second() == [dead]
    assert redriven == Redriven([], [OWN], [], [])
