"""One message, one lock: the seal, the lock, the due time, what is damaged."""

from __future__ import annotations

import errno
import os
import socket
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mq.lifecycle import Folder
from mq.spool.message.held import Held, Lost, fails_its_seal, hold, read_content, set_aside
from mq.spool.message.seal import Leases, Seal, due_ns, is_due, lease_in, pack_new, round_up
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import DAY_NS, SECOND_NS, names_in, seal_of, stamp, write_message

unsigned_32, unsigned_64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
seals = st.builds(
    Seal, *[unsigned_64, unsigned_32] * 2, unsigned_64, unsigned_32, unsigned_32, unsigned_64
)


@pytest.fixture
def message(spool: Spool) -> Path:
    """`queues/orders/1` with a good seal."""
    path = spool.root / "queues" / "orders" / "1"
    return write_message(path, b"body", seal=seal_of(b"body", count=2, lease=7))


def _hold(spool: Spool, name: str = "orders/1") -> Held | Lost:
    return hold(spool.files, spool.fd(Folder.QUEUES), name)


def _held(spool: Spool, name: str = "orders/1") -> Held:
    held = _hold(spool, name)
    assert isinstance(held, Held)
    return held


# The seal


def test_seal_has_the_layout_of_the_design_byte_for_byte() -> None:
    seal = Seal(0x0102030405060708, 0x11121314, 0x2122232425262728, 0x31323334, 0x4142434445464748)
    long = Seal(*seal[:5], 0x51525354, 0x61626364, 0x7172737475767778)

    packed = "01020304 05060708 11121314 21222324 25262728 31323334 41424344 45464748"
    assert seal.pack().hex(" ", 4) == packed
    assert long.pack().hex(" ", 4) == f"{packed} 51525354 61626364 71727374 75767778"


@pytest.mark.parametrize("behind", [(), (0, 0), (7, 0x51525354)])
def test_a_new_seal_is_packed_as_every_other(behind: tuple[int, ...]) -> None:
    assert pack_new(3, 0xFEDCBA98, 5, *behind) == Seal(3, 0xFEDCBA98, 5, 0, 0, *behind).pack()


@settings(deadline=None)
@given(seals)
def test_seal_is_read_as_it_was_written(seal: Seal) -> None:
    assert len(seal.pack()) == (48 if any(seal[5:]) else 32)
    assert Seal.unpack(seal.pack()) == seal
    assert lease_in(seal.pack()) == seal.lease


@pytest.mark.parametrize("data", [None, b"", bytes(31), bytes(33), bytes(47), bytes(49)])
def test_what_is_no_seal_counts_as_none(data: bytes | None) -> None:
    assert Seal.unpack(data) is None
    assert lease_in(data) is None


def test_leases_are_never_zero_and_never_the_same() -> None:
    given, others = Leases(), Leases()

    leases = {given.next() for _ in range(1000)} | {others.next() for _ in range(1000)}

    assert len(leases) == 2000
    assert 0 not in leases
    assert all(0 < lease < 2**64 for lease in leases)


# The lock


def test_held_message_is_open_with_its_seal(spool: Spool, message: Path) -> None:
    with _held(spool) as held:
        assert held.seal == seal_of(b"body", count=2, lease=7)
        assert held.lease == 7
        assert held.status.st_ino == message.stat().st_ino


def test_message_that_another_holds_is_busy_until_it_lets_go(spool: Spool, message: Path) -> None:
    with _held(spool):
        assert _hold(spool) is Lost.BUSY

    _held(spool).close()


def test_message_that_is_not_there_is_gone(spool: Spool) -> None:
    assert _hold(spool, "orders/1") is Lost.GONE
    assert _hold(spool, "nowhere/1") is Lost.GONE
    write_message(spool.root / "queues" / "file")
    assert _hold(spool, "file/1") is Lost.GONE


def test_name_that_leads_to_another_file_by_now_is_gone(
    spool: Spool, files: WatchedFiles, message: Path
) -> None:
    def replace(*_: object) -> None:
        message.rename(spool.root / "delay" / "orders:1")
        write_message(message, b"another")
        del files.before["lock"]

    files.before["lock"] = replace

    assert _hold(spool) is Lost.GONE
    with _held(spool) as held:
        assert held.status.st_size == len(b"another")


def test_name_that_vanished_before_the_lock_is_gone(
    spool: Spool, files: WatchedFiles, message: Path
) -> None:
    files.before["lock"] = lambda *_: message.unlink()

    assert _hold(spool) is Lost.GONE


def test_what_is_no_regular_file_is_foreign_and_waits_for_nobody(spool: Spool) -> None:
    folder = spool.root / "queues" / "orders"
    (folder / "link").symlink_to(write_message(spool.root / "elsewhere"))
    (folder / "broken").symlink_to("nowhere")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{spool.fd(Folder.QUEUES)}/orders/socket")

    for name in ("link", "broken", "folder", "fifo", "socket"):
        assert _hold(spool, f"orders/{name}") is Lost.FOREIGN


def test_failure_while_holding_ends_the_lock(
    spool: Spool, files: WatchedFiles, message: Path
) -> None:
    with pytest.raises(ZeroDivisionError), _held(spool):
        _ = 1 // 0

    files.before["lock"] = lambda *_: 1 // 0
    with pytest.raises(ZeroDivisionError):
        _hold(spool)
    del files.before["lock"]
    _held(spool).close()


# The due time


def test_file_stamped_ahead_is_due_at_its_stamp(message: Path) -> None:
    stamp(message, due_in_seconds=60)
    status = message.stat()

    assert due_ns(status, delay_ns=5 * SECOND_NS) == status.st_mtime_ns


def test_stamp_survives_a_rename(message: Path) -> None:
    stamp(message, due_in_seconds=60)
    stamped_ns = message.stat().st_mtime_ns
    moved = message.rename(message.with_name("2"))

    assert due_ns(moved.stat(), delay_ns=0) == stamped_ns


def test_file_without_a_stamp_is_due_the_delay_after_its_arrival(message: Path) -> None:
    os.utime(message, ns=(0, 0))
    arrived = message.rename(message.with_name("2")).stat()

    assert due_ns(arrived, delay_ns=5 * SECOND_NS) == arrived.st_ctime_ns + 5 * SECOND_NS


def test_stamp_more_than_400_days_ahead_is_a_broken_clocks_and_due_now() -> None:
    now_ns = time.time_ns()

    assert not is_due(now_ns + 400 * DAY_NS, now_ns)
    assert is_due(now_ns + 400 * DAY_NS + 1, now_ns)
    assert is_due(now_ns, now_ns)
    assert not is_due(now_ns + 1, now_ns)


@settings(deadline=None)
@given(st.integers(0, 2**62), st.sampled_from([1, 100, 1000, 10**6, 10**9, 2 * 10**9]))
def test_stamp_is_rounded_up_to_what_the_file_system_keeps(time_ns: int, step_ns: int) -> None:
    rounded = round_up(time_ns, step_ns)

    assert rounded % step_ns == 0
    assert time_ns <= rounded < time_ns + step_ns


# Damage


def test_whole_body_passes_its_seal(spool: Spool, message: Path) -> None:
    with _held(spool) as held:
        assert read_content(held, spool.files) == (b"body", {})
        assert not fails_its_seal(held, spool.files)


@pytest.mark.parametrize("damaged", [b"", b"bod", b"bodx", b"body "])
def test_torn_or_changed_body_fails_its_seal(spool: Spool, message: Path, damaged: bytes) -> None:
    message.write_bytes(damaged)

    with _held(spool) as held:
        assert read_content(held, spool.files) is None
        assert fails_its_seal(held, spool.files)


def test_file_without_a_seal_is_taken_as_whole(spool: Spool) -> None:
    write_message(spool.root / "queues" / "orders" / "1", b"by hand")

    with _held(spool) as held:
        assert held.seal is None
        assert read_content(held, spool.files) == (b"by hand", {})
        assert not fails_its_seal(held, spool.files)


def test_large_body_is_measured_over_all_its_pieces(spool: Spool) -> None:
    body = os.urandom(1_500_000)
    path = spool.root / "queues" / "orders" / "1"
    write_message(path, body, seal=Seal(len(body), zlib.crc32(body), 0, 0, 0))
    with _held(spool) as held:
        assert not fails_its_seal(held, spool.files)

    path.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))

    with _held(spool) as held:
        assert fails_its_seal(held, spool.files)


def test_one_failed_read_is_forgiven_and_two_are_damage(
    spool: Spool, files: WatchedFiles, message: Path
) -> None:
    with _held(spool) as held:
        files.fail("read", code=errno.EIO, times=1)
        assert read_content(held, files) == (b"body", {})

        files.fail("read", code=errno.EIO, times=2)
        assert read_content(held, files) is None

        files.fail("read", code=errno.EIO, times=2)
        assert fails_its_seal(held, files)


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EINTR, errno.EMFILE])
def test_errors_that_say_nothing_about_the_file_are_raised(
    spool: Spool, files: WatchedFiles, message: Path, code: int
) -> None:
    with _held(spool) as held:
        for read in (read_content, fails_its_seal):
            files.fail("read", code=code)
            with pytest.raises(OSError, match=os.strerror(code)):
                read(held, files)


def test_damaged_messages_are_set_aside_each_under_a_name_of_its_own(spool: Spool) -> None:
    path = spool.root / "queues" / "orders" / "1"
    for body in (b"first", b"second"):
        write_message(path, body)
        with _held(spool) as held:
            set_aside(spool, Folder.QUEUES, held)

    assert names_in(spool.root / "corrupt") == ["orders:1", "orders:1~2"]
    assert (spool.root / "corrupt" / "orders:1~2").read_bytes() == b"second"
