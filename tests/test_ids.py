"""Ids: how they are made, which times are in them, in which order they stand."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.ids import (
    MessageIds,
    ServerIds,
    id_of_key,
    id_time_ns,
    is_server_id,
    order_key,
    time_of_key,
)
from mq.names import MessageId
from tests.support.messages import DAY_NS

_NS_PER_MS = 1_000_000
_YEAR_2100_NS = 4_102_444_800 * 1_000_000_000

message_ids = st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True)
times_ns = st.integers(0, _YEAR_2100_NS)


def _v7(milliseconds: int, rest: int) -> str:
    number = milliseconds << 80 | 7 << 76 | (rest >> 62) << 64 | 1 << 63 | rest & (1 << 62) - 1
    return str(uuid.UUID(int=number))


def _v1(time_ns: int, sequence: int) -> str:
    ticks = time_ns // 100 + 0x01B21DD213814000
    head = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0xFFF)
    return str(uuid.UUID(fields=(*head, 0, sequence, 0), version=1))


v7_ids = st.builds(_v7, times_ns.map(lambda ns: ns // _NS_PER_MS), st.integers(0, (1 << 74) - 1))
v1_ids = st.builds(_v1, times_ns, st.integers(0, 255))


@given(st.lists(times_ns, min_size=2, max_size=50))
def test_ids_increase_whatever_the_clock_does(clock: list[int]) -> None:
    readings = iter(clock)
    ids = MessageIds(lambda: next(readings))

    made = [ids.next() for _ in clock]

    assert all(earlier < later for earlier, later in pairwise(made))


@given(times_ns)
def test_id_is_an_rfc_9562_uuid_of_version_7_with_the_time_in_it(now_ns: int) -> None:
    made = uuid.UUID(MessageIds(lambda: now_ns).next())

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == now_ns // _NS_PER_MS


def test_ids_of_one_instant_are_distinct_and_in_order() -> None:
    ids = MessageIds(lambda: _YEAR_2100_NS)

    made = [ids.next() for _ in range(10_000)]

    assert made == sorted(set(made))


@given(times_ns, st.integers(-DAY_NS, DAY_NS), st.integers(0, (1 << 74) - 1))
def test_ids_start_above_the_greatest_found(now_ns: int, ahead_ns: int, rest: int) -> None:
    found = _v7(max(now_ns + ahead_ns, 0) // _NS_PER_MS, rest)
    ids = MessageIds(lambda: now_ns)

    ids.start_above(found)

    assert ids.next() > found


@given(times_ns, st.integers(2 * _NS_PER_MS, 1000 * DAY_NS), st.integers(0, (1 << 74) - 1))
def test_ids_more_than_a_day_ahead_are_ignored(now_ns: int, beyond_ns: int, rest: int) -> None:
    ids = MessageIds(lambda: now_ns)

    ids.start_above(_v7((now_ns + DAY_NS + beyond_ns) // _NS_PER_MS, rest))

    assert id_time_ns(ids.next()) == now_ns // _NS_PER_MS * _NS_PER_MS


_V4 = "8f14e45f-ceea-467f-a8d2-3f4b1c6e9a70"


@pytest.mark.parametrize("other", ["zzz", "", "x~2", _V4, _v1(_YEAR_2100_NS, 1)])
def test_ids_do_not_start_above_one_that_is_not_version_7(other: str) -> None:
    ids = MessageIds(lambda: 1_000 * _NS_PER_MS)

    ids.start_above(other)

    assert id_time_ns(ids.next()) == 1_000 * _NS_PER_MS


def test_time_inside_an_id_is_read_from_versions_7_and_1_alone() -> None:
    # The examples of RFC 9562, appendix A.
    moment = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)
    expected_ns = int(moment.timestamp()) * 1_000_000_000

    assert id_time_ns("017F22E2-79B0-7CC3-98C4-DC0C0C07398F") == expected_ns
    assert id_time_ns("C232AB00-9414-11EC-B3C8-9F6BDECED846") == expected_ns
    assert id_time_ns("1EC9414C-232A-6B00-B3C8-9F6BDECED846") is None
    assert id_time_ns("my-own-id") is None


placed_ids = st.one_of(
    st.tuples(v7_ids, times_ns), st.tuples(v1_ids, times_ns), st.tuples(message_ids, times_ns)
)


@given(st.lists(placed_ids, max_size=30, unique_by=lambda placed: placed[0]))
def test_order_is_by_time_and_then_by_id_for_ids_of_every_kind(
    placed: list[tuple[str, int]],
) -> None:
    times = {
        message_id: time_ns if (inside := id_time_ns(message_id)) is None else inside
        for message_id, time_ns in placed
    }

    by_key = sorted(times, key=lambda message_id: order_key(message_id, times[message_id]))

    # Of two with the same nanosecond that of a server comes first.
    assert by_key == sorted(times, key=lambda each: (times[each], not is_server_id(each), each))


@given(placed_ids)
def test_key_gives_back_its_id_and_time(placed: tuple[str, int]) -> None:
    message_id, time_ns = placed
    inside = id_time_ns(message_id)
    time_ns = time_ns if inside is None else inside

    key = order_key(message_id, time_ns)

    assert (id_of_key(key), time_of_key(key)) == (message_id, time_ns)


@given(st.lists(st.tuples(times_ns, st.integers(0, 5)), min_size=1, max_size=8))
def test_positions_of_a_batch_follow_one_another_and_all_before(
    steps: list[tuple[int, int]],
) -> None:
    """Whatever the clock says; it is asked once for each batch."""
    clock = iter(time_ns for time_ns, _ in steps)
    ids = ServerIds(lambda: next(clock))

    positions = [each for _, count in steps for each in ids.next_positions([None] * count)]

    assert all(one < next_one for one, next_one in pairwise(positions))
    assert all(one[1] < next_one[1] for one, next_one in pairwise(positions))
    for message_id, published_ns in positions:
        assert is_server_id(message_id)
        assert time_of_key(order_key(message_id, published_ns)) == published_ns


def test_positions_of_a_batch_take_the_ids_of_its_producer_and_their_place() -> None:
    own = MessageId("own")
    ids = ServerIds(lambda: 1_795_355_231_000_000_000)

    first, second, third = ids.next_positions([None, own, None])

    assert second.message_id == own
    assert first.published_ns < second.published_ns < third.published_ns
    assert ids.next_position().published_ns > third.published_ns
