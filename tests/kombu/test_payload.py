"""Messages of kombu as messages of MQ."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mq.config import MAX_DELAY_SECONDS
from mq.kombu.payload import body_of, delay_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(eta: object = None, **properties: Any) -> dict[str, Any]:
    return {"body": "tea", "headers": {"eta": eta}, "properties": properties}


@pytest.mark.parametrize(
    ("eta", "seconds"),
    [
        (None, None),
        ((NOW + timedelta(seconds=90)).isoformat(), 90),
        ("2026-01-01T01:01:30+01:00", 90),
        ((NOW - timedelta(days=1)).isoformat(), 0),
        ((NOW + timedelta(days=1000)).isoformat(), MAX_DELAY_SECONDS),
        ("2026-01-02T00:00:00", None),
        ("tomorrow", None),
        (12, None),
    ],
)
def test_an_eta_is_a_delay(eta: object, seconds: float | None) -> None:
    assert delay_of(message(eta), NOW) == seconds


TASK = {"task": "tasks.brew", "id": "4", "args": [], "kwargs": {}, "retries": 0, "utc": True,
        "expires": None, "eta": "2026-01-01T00:01:30+00:00"}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "seconds"),
    [
        (json.dumps(TASK), "application/json", 90),
        (json.dumps(TASK).encode(), "application/json", 90),
        (json.dumps(TASK), "text/plain", None),
        (json.dumps({**TASK, "eta": None}), "application/json", None),
        (json.dumps({"eta": TASK["eta"]}), "application/json", None),
        (json.dumps({"task": "deliver", "eta": TASK["eta"]}), "application/json", None),
        ('{"eta": "task', "application/json", None),
        ('["eta", "task"]', "application/json", None),
        (b'\xff"eta"', "application/json", None),
        ('{"eta": ' + "[" * 100_000, "application/json", None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_eta_of_a_task_of_protocol_1_is_in_its_body(
    body: object, kind: str, seconds: float | None
) -> None:
    task = {"body": body, "content-type": kind, "headers": {}, "properties": {}}

    assert delay_of(task, NOW) == seconds


def test_delay_seconds_counts_before_an_eta() -> None:
    eta = (NOW + timedelta(hours=1)).isoformat()

    assert delay_of(message(eta, delay_seconds=2.5), NOW) == 2.5


@pytest.mark.parametrize("given", [-1, MAX_DELAY_SECONDS + 1, "5", True])
def test_a_delay_that_makes_no_sense_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="delay_seconds"):
        delay_of(message(delay_seconds=given), NOW)


def test_what_is_only_for_publishing_is_not_sent() -> None:
    assert body_of(message(mq_id="a", delay_seconds=3)) == body_of(message())
