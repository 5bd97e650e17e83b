"""A batch without an answer of which a part is there is found, unless nobody can tell."""

from __future__ import annotations

from tests.soak.evidence import Evidence
from tests.soak.history import UNCLEAR, Event, Given, left_there
from tests.soak.parted import parted


def _parted_with(*left: str) -> list[str]:
    """The verdicts on a batch of two copies in `bills`, with own ids, of which these are there."""
    sent = [Given(f"bills/{name}", f"bills/t{name}") for name in "12"]
    there = [Given(each, each.replace("/", "/t")) for each in left]
    history = [Event("publish", 0, 1, 503, "bills", given=sent), left_there(there, "bills")]
    return [token for token, _ in parted(Evidence(history), {"bills"})]


def test_a_batch_of_which_a_part_is_there_is_parted() -> None:
    assert _parted_with("bills/1") == ["bills/t2"]


def test_a_copy_that_may_be_of_any_queue_may_be_the_one_that_is_missing() -> None:
    assert _parted_with("bills/1", f"{UNCLEAR}/2") == []
