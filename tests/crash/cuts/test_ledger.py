"""The ledger of the cuts sees each thing that a cut must not do."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.crash.cuts.bodies import body_of
from tests.crash.cuts.ledger import CutLedger
from tests.support.messages import seal_of, write_message

READY, LEASED, REMOVED = "ready-one", "leased-one", "removed-one"
TOKENS = {READY: f"{1:032x}", LEASED: f"{2:032x}", REMOVED: f"{3:032x}"}
LEASE = 0xABC
VISIBLE = datetime.now(UTC) + timedelta(hours=1)


def _event(*event: object) -> bytes:
    return json.dumps(event).encode()


def _lines() -> list[bytes]:
    times_ns = time.time_ns(), time.time_ns()
    etag = f'"{LEASE:016x}"'
    return [
        _event("asked to make", "orders"),
        _event("made", "orders"),
        *(_event("asked to publish", token, "orders") for token in TOKENS.values()),
        *(_event("published", i, token, "orders") for i, token in TOKENS.items()),
        _event("leased", LEASED, TOKENS[LEASED], etag, VISIBLE.isoformat(), *times_ns),
        _event("asked to remove", REMOVED),
        _event("removed", REMOVED, time.time_ns()),
    ]


@pytest.fixture
def tree(root: Path) -> Path:
    """A tree that agrees with what the client was told."""
    for folder in ("new", "queues/orders", "delay", "remove"):
        (root / folder).mkdir(parents=True)
    _write(root / "queues" / "orders" / READY, READY)
    _write(root / "delay" / f"orders:{LEASED}", LEASED)
    return root


def _write(path: Path, message_id: str) -> None:
    body = body_of(TOKENS.get(message_id, message_id))
    write_message(path, body, seal=seal_of(body, lease=LEASE), due_in_seconds=3601)


def _violations(root: Path) -> list[str]:
    ledger = CutLedger()
    ledger.read(_lines(), certain=True)
    return ledger.violations(root)


def test_tree_as_the_client_was_told_is_right(tree: Path) -> None:
    assert _violations(tree) == []


@pytest.mark.parametrize(
    ("harm", "violation"),
    [
        (lambda r: (r / "queues/orders" / READY).unlink(), f"{READY} is lost"),
        (lambda r: (r / "delay" / f"orders:{LEASED}").unlink(), f"{LEASED} is lost"),
        (lambda r: _write(r / "new" / f"orders:{READY}", READY), f"{READY} is there twice"),
        (lambda r: _write(r / "new" / f"orders:{REMOVED}", REMOVED), "was removed and is back"),
        (lambda r: os.truncate(r / "queues/orders" / READY, 40), f"{READY} is torn"),
        (lambda r: os.utime(r / "delay" / f"orders:{LEASED}"), "its lease is forgotten"),
        (
            lambda r: (r / "delay" / f"orders:{LEASED}").rename(r / "queues/orders" / LEASED),
            "its lease is forgotten",
        ),
        (lambda r: shutil.rmtree(r / "queues/orders"), "queue orders is lost"),
        (
            lambda r: _write(r / "queues/orders/other", f"{4:032x}"),
            "other was sent by nobody",
        ),
        (lambda r: _write(r / "new/orders:other", READY), f"other is {READY} under a second id"),
    ],
)
def test_harm_is_seen(tree: Path, harm: Callable[[Path], object], violation: str) -> None:
    harm(tree)

    assert any(violation in line for line in _violations(tree))


@pytest.mark.parametrize(
    ("token", "asked_in_seconds", "violation"),
    [
        (None, 0, "torn"),
        (TOKENS[REMOVED], 1, "removed and given out again"),
        (TOKENS[READY], 0, "another's body"),
    ],
)
def test_message_that_should_not_be_given_out_is_seen(
    token: str | None, asked_in_seconds: float, violation: str
) -> None:
    ledger = CutLedger()
    ledger.read(_lines(), certain=True)
    asked_ns = time.time_ns() + int(asked_in_seconds * 1_000_000_000)

    ledger.note_lease(REMOVED, token, '"1"', VISIBLE.isoformat(), asked_ns, asked_ns)

    assert any(violation in line for line in ledger.wrong)


@pytest.mark.parametrize(
    ("token", "violation"),
    [
        (f"{4:032x}", "other was sent by nobody"),
        (TOKENS[READY], f"other is {READY} under a second id"),
    ],
)
def test_message_under_an_id_that_it_never_had_is_seen(token: str, violation: str) -> None:
    ledger = CutLedger()
    ledger.read(_lines(), certain=True)

    ledger.note_lease("other", token, '"1"', VISIBLE.isoformat(), time.time_ns(), time.time_ns())

    assert ledger.wrong == [violation]


def test_message_given_out_under_a_lease_is_seen() -> None:
    ledger = CutLedger()
    ledger.read(_lines(), certain=True)
    later = (VISIBLE + timedelta(seconds=1)).isoformat()

    ledger.note_lease(LEASED, TOKENS[LEASED], '"1"', later, time.time_ns(), time.time_ns())

    assert ledger.wrong == [f"{LEASED} was given out under somebody's lease"]


def test_answer_that_came_after_the_cut_binds_nobody(tree: Path) -> None:
    ledger = CutLedger()
    ledger.read(_lines(), certain=False)
    shutil.rmtree(tree / "queues" / "orders")

    assert ledger.violations(tree) == []
