"""What can be in place of a leased message, each as a function that makes it in a root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.names import MessageId, QueueName
from mq.spool.message.seal import SEAL_ATTRIBUTE
from tests.support.messages import seal_of, sealed_with, write_message
from tests.support.users import NOBODY, needs_root

Act = Callable[[Path], object]

ORDERS = QueueName("orders")
ONE = MessageId("0192d7a4-1111-7000-8000-000000000000")
TWO = MessageId("0192d7a4-1111-7000-8000-000000000001")
LEASE, STAMP_NS, OTHER = 77, 77_000, 78
LEASES = frozenset({LEASE, STAMP_NS})


def delay(root: Path, message_id: MessageId = ONE) -> Path:
    return root / "delay" / f"{ORDERS}:{message_id}"


def leased(path: Path, lease: int = LEASE) -> Path:
    return write_message(path, b"body", seal=seal_of(b"body", count=1, lease=lease))


def plain(root: Path) -> None:
    leased(delay(root))


def with_a_long_seal(root: Path) -> None:
    seal, data = sealed_with(b"body", {"x-meta-shop": "north"})
    write_message(delay(root), data, seal=seal._replace(lease=LEASE))


def torn(root: Path) -> None:
    write_message(delay(root), b"bod", seal=seal_of(b"body", lease=LEASE))


def under_another_lease(root: Path) -> None:
    leased(delay(root), OTHER)


def delayed(root: Path) -> None:
    leased(delay(root), 0)


def without_a_seal(root: Path) -> None:
    path = write_message(delay(root), b"body")
    os.utime(path, ns=(STAMP_NS, STAMP_NS))


def without_a_seal_under_another_lease(root: Path) -> None:
    write_message(delay(root), b"body")


def with_something_else_as_a_seal(root: Path) -> None:
    without_a_seal(root)
    os.setxattr(delay(root), SEAL_ATTRIBUTE, b"short")
    os.utime(delay(root), ns=(STAMP_NS, STAMP_NS))


def of_another_user(root: Path) -> None:
    os.chown(leased(delay(root)), NOBODY, NOBODY)


def of_another_user_and_ready(root: Path) -> None:
    of_another_user(root)
    leased(root / "queues" / ORDERS / ONE)


def a_link(root: Path) -> None:
    delay(root).symlink_to("elsewhere")


def a_folder(root: Path) -> None:
    delay(root).mkdir()


def a_folder_with_a_seal(root: Path) -> None:
    a_folder(root)
    os.setxattr(delay(root), SEAL_ATTRIBUTE, seal_of(b"", lease=LEASE).pack())


def a_pipe(root: Path) -> None:
    os.mkfifo(delay(root))


def with_a_second_name(root: Path) -> None:
    os.link(leased(delay(root)), root / "queues" / ORDERS / ONE)


def half_removed(root: Path) -> None:
    os.link(leased(delay(root)), root / "remove" / f"{ORDERS}:{ONE}")


def with_another_file_in_the_way(root: Path) -> None:
    plain(root)
    (root / "remove" / f"{ORDERS}:{ONE}").write_bytes(b"other")


def on_its_way_back(root: Path) -> None:
    leased(root / "new" / f"{ORDERS}:{ONE}")


def returned(root: Path) -> None:
    leased(root / "queues" / ORDERS / ONE)


def returned_and_taken_by_another(root: Path) -> None:
    leased(root / "queues" / ORDERS / ONE, OTHER)


def removed(root: Path) -> None:
    leased(root / "remove" / f"{ORDERS}:{ONE}")


def removed_by_another(root: Path) -> None:
    leased(root / "remove" / f"{ORDERS}:{ONE}", OTHER)


def nothing(root: Path) -> None:
    pass


LEASED_FILES = (
    plain, with_a_long_seal, torn, under_another_lease, delayed, without_a_seal,
    without_a_seal_under_another_lease, with_something_else_as_a_seal,
    pytest.param(of_another_user, marks=needs_root),
    pytest.param(of_another_user_and_ready, marks=needs_root), a_link, a_folder,
    a_folder_with_a_seal, a_pipe,
    with_a_second_name, half_removed, with_another_file_in_the_way, on_its_way_back, returned,
    returned_and_taken_by_another, removed, removed_by_another, nothing,
)  # fmt: skip
