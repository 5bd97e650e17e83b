"""A leak is found, and what messages take is none."""

from __future__ import annotations

import pytest

from tests.soak.growth import BYTES_FOR_MESSAGE, Sample, growth_of

SETTLED = 120.0


def samples_with(
    leak_kib: float = 0, more_open: float = 0, messages: int = 0, peak_kib: int = 0
) -> list[Sample]:
    """Samples of five minutes, one every 5 s: with a leak of KiB a second, with `more_open`
    descriptors more each second, with messages that come in the last minute, with a peak in one
    sample."""
    found = []
    for number in range(60):
        at = number * 5.0
        there = messages if at > 240 else 0
        resident = 90_000 + leak_kib * at + there * BYTES_FOR_MESSAGE / 1024
        resident += peak_kib if number == 50 else 0
        found.append(Sample(at, 30 + int(more_open * at), int(resident), there))
    return found


@pytest.mark.parametrize(
    "samples",
    [samples_with(), samples_with(messages=100_000), samples_with(peak_kib=20_000)],
    ids=["nothing", "messages", "a peak"],
)
def test_what_is_no_leak_is_none(samples: list[Sample]) -> None:
    growth = growth_of(samples, SETTLED)

    assert growth is not None
    assert growth.failures("mq") == []


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        (samples_with(leak_kib=60), "memory"),
        (samples_with(leak_kib=60, messages=20_000), "memory"),
        (samples_with(more_open=0.1), "descriptors"),
    ],
    ids=["memory", "memory beside messages", "descriptors"],
)
def test_a_leak_is_found(samples: list[Sample], what: str) -> None:
    growth = growth_of(samples, SETTLED)

    assert growth is not None
    [failure] = growth.failures("mq")
    assert what in failure


def test_too_short_a_time_tells_nothing() -> None:
    assert growth_of(samples_with()[:30], SETTLED) is None
