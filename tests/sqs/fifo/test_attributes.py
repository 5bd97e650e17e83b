"""The attributes that FIFO queues alone have."""

from __future__ import annotations

import pytest

from mq.names import QueueName
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings, change
from mq_sqs.faults import SQSError
from mq_sqs.fifo.attributes import (
    check_together,
    check_type,
    fifo_attributes_of,
    fifo_changes,
    is_content_based,
)
from tests.support.fifo import DEAD_LINE, LINE
from tests.support.stores import ORDERS

DEFAULTS = {
    "FifoQueue": "true", "ContentBasedDeduplication": "false", "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}  # fmt: skip


def settings_with(**attributes: str) -> QueueSettings:
    changes: dict[str, str] = {}
    for name, text in attributes.items():
        changes |= fifo_changes(LINE, name, text)
    return change(LINE, NO_SETTINGS, changes)


def test_without_a_note_a_fifo_queue_has_what_amazon_gives_it() -> None:
    assert fifo_attributes_of(NO_SETTINGS) == DEFAULTS
    assert settings_with(**DEFAULTS) == NO_SETTINGS
    edited = QueueSettings(notes={"sqs.deduplication-scope": "nonsense"})
    assert fifo_attributes_of(edited) == DEFAULTS


def test_what_is_set_is_shown() -> None:
    attributes = {
        "ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }  # fmt: skip
    settings = settings_with(**attributes)

    assert fifo_attributes_of(settings) == DEFAULTS | attributes
    assert is_content_based(settings)
    assert not is_content_based(NO_SETTINGS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FifoQueue", "false"), ("FifoQueue", "x"), ("ContentBasedDeduplication", "yes"),
        ("DeduplicationScope", "group"), ("FifoThroughputLimit", "perqueue"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_possible_is_refused(name: str, text: str) -> None:
    with pytest.raises(SQSError, match=name) as refused:
        fifo_changes(LINE, name, text)

    assert refused.value.fault.name == "InvalidAttributeValue"


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("FifoQueue", "true", "InvalidAttributeName"),
        ("ContentBasedDeduplication", "true", "InvalidAttributeName"),
        ("DeduplicationScope", "queue", "InvalidAttributeName"),
        ("FifoThroughputLimit", "perQueue", "InvalidAttributeName"),
    ],
)
def test_a_standard_queue_takes_none_of_them(name: str, text: str, fault: str) -> None:
    with pytest.raises(SQSError, match=name) as refused:
        fifo_changes(ORDERS, name, text)
    assert refused.value.fault.name == fault
    assert fifo_changes(ORDERS, "FifoQueue", "false") == {}


def test_throughput_by_group_needs_deduplication_by_group() -> None:
    by_group = fifo_changes(LINE, "FifoThroughputLimit", "perMessageGroupId")
    scope = fifo_changes(LINE, "DeduplicationScope", "messageGroup")

    with pytest.raises(SQSError, match="perMessageGroupId"):
        check_together(None, by_group)
    check_together(None, by_group | scope)
    both = change(LINE, NO_SETTINGS, by_group | scope)
    check_together(both, {})
    with pytest.raises(SQSError, match="perMessageGroupId"):
        check_together(both, fifo_changes(LINE, "DeduplicationScope", "queue"))


def test_name_and_attribute_go_together() -> None:
    check_type(ORDERS, {"FifoQueue": "false"})
    check_type(LINE, {"FifoQueue": "true"})
    with pytest.raises(SQSError, match="must end with"):
        check_type(ORDERS, {"FifoQueue": "true"})
    with pytest.raises(SQSError, match="FifoQueue"):
        check_type(LINE, {})


@pytest.mark.parametrize(
    ("queue", "dead", "is_possible"),
    [(LINE, DEAD_LINE, True), (LINE, ORDERS, False), (ORDERS, DEAD_LINE, False)],
)
def test_dead_letters_of_a_fifo_queue_go_to_a_fifo_queue(
    queue: QueueName, dead: QueueName, is_possible: bool
) -> None:
    changes = {"max-receives": "3", "dead-letters": dead}
    if is_possible:
        rule = change(queue, NO_SETTINGS, changes).dead_letter_rule(queue, 0)
        assert rule == (3, (dead,))
        return
    with pytest.raises(Exception, match="FIFO"):
        change(queue, NO_SETTINGS, changes)


def test_nothing_leaves_a_fifo_queue_because_of_a_flag() -> None:
    assert NO_SETTINGS.dead_letter_rule(LINE, 5).max_receives == 0
    assert NO_SETTINGS.dead_letter_rule(ORDERS, 5).max_receives == 5
