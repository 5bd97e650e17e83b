"""The settings of a queue: names, values, and the text that holds them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mq.errors import InvalidRequest
from mq.names import QueueName
from mq.spool.queue.queue_settings import (
    MAX_TTL_SECONDS,
    NO_SETTINGS,
    SETTINGS,
    QueueSettings,
    change,
    parse_settings,
)

ORDERS = QueueName("orders")
ALL = {
    "visibility": "60",
    "delay": "0.5",
    "max-receives": "5",
    "dead-letters": "orders.failed",
    "max-messages": "100000",
    "ttl": "345600",
    "paused": "true",
    "also": "bills,kitchen",
}
ALL_SET = QueueSettings(
    60.0, 0.5, 5, QueueName("orders.failed"), 100_000, 345_600.0, True,
    (QueueName("bills"), QueueName("kitchen")),
)  # fmt: skip


def test_each_field_has_one_name() -> None:
    names = [each.field for each in SETTINGS.values()]
    assert [*names, "notes"] == [f.name for f in fields(QueueSettings)]
    assert list(ALL) == list(SETTINGS)


def test_all_settings_are_read_and_shown() -> None:
    settings = change(ORDERS, NO_SETTINGS, ALL)

    assert settings == ALL_SET
    assert settings.document() == {
        "visibility": 60, "delay": 0.5, "max-receives": 5, "dead-letters": "orders.failed",
        "max-messages": 100_000, "ttl": 345_600, "paused": True,
        "also": "bills,kitchen",
    }  # fmt: skip
    assert parse_settings(ORDERS, settings.text()) == settings


def test_a_change_leaves_the_others_and_an_empty_value_takes_one_away() -> None:
    settings = change(ORDERS, ALL_SET, {"delay": "", "ttl": "1", "paused": "false"})

    assert settings.delay_seconds is None
    assert settings.paused is None
    assert settings.ttl_seconds == 1
    assert settings.visibility_seconds == 60
    assert change(ORDERS, ALL_SET, dict.fromkeys(ALL, "")) == NO_SETTINGS


@pytest.mark.parametrize("text", ["0.000000001", "2592000", "0.1", "123456.789012345", "1000000"])
def test_seconds_are_the_same_when_they_are_read_again(text: str) -> None:
    settings = change(ORDERS, NO_SETTINGS, {"visibility": text})

    assert settings.visibility_seconds == float(text)
    assert parse_settings(ORDERS, settings.text()) == settings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("visibility", "0"), ("visibility", "0.0"), ("visibility", "2592001"),
        ("visibility", "1e3"), ("visibility", "nan"), ("visibility", "-1"), ("visibility", "false"),
        ("delay", "31536001"), ("delay", "x"), ("delay", "1."), ("delay", "٣"),
        ("max-receives", "-1"), ("max-receives", "1.5"), ("max-receives", "1000000000"),
        ("max-messages", "many"), ("max-messages", "+1"),
        ("dead-letters", "a/b"), ("dead-letters", ".hidden"), ("dead-letters", "orders"),
        ("ttl", "0"), ("ttl", str(MAX_TTL_SECONDS + 1)),
        ("paused", "yes"), ("paused", "True"), ("paused", "1"),
        ("colour", "red"), ("Visibility", "1"), ("visibility_seconds", "1"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        change(ORDERS, NO_SETTINGS, {name: text})
    with pytest.raises(InvalidRequest, match=name):
        parse_settings(ORDERS, f"{name}={text}\n")


@pytest.mark.parametrize("name", ["max-receives", "dead-letters"])
def test_nothing_is_to_be_moved_out_of_dead_letters(name: str) -> None:
    dead = QueueName("orders.dead")

    with pytest.raises(InvalidRequest, match="only when someone moves them"):
        change(dead, NO_SETTINGS, {name: ALL[name]})

    assert change(dead, NO_SETTINGS, {"max-receives": "0"}).max_receives == 0


def test_a_person_may_write_the_text() -> None:
    text = "# slow consumers\n\nvisibility = 600\r\n  paused=true\nttl=\n"

    settings = parse_settings(ORDERS, text)

    assert settings == QueueSettings(visibility_seconds=600.0, paused=True)


@pytest.mark.parametrize(
    "text", ["visibility\n", "ttl=1\nttl=2\n", "=1\n", "\x00", "ttl=1;delay=2"]
)
def test_other_text_is_damage(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_settings(ORDERS, text)


def test_a_note_of_a_gateway_is_kept_shown_and_taken_away() -> None:
    noted = change(ORDERS, NO_SETTINGS, {"sqs.wait": "20", "delay": "5", "sqs.tag.Kosten": "ä = b"})

    assert noted.document() == {"delay": 5, "sqs.tag.Kosten": "ä = b", "sqs.wait": "20"}
    assert parse_settings(ORDERS, noted.text()) == noted
    assert change(ORDERS, noted, {"delay": "1"}).notes == noted.notes
    without = change(ORDERS, noted, {"sqs.wait": "", "sqs.tag.Kosten": ""})
    assert without.text() == "delay=5\n"


@pytest.mark.parametrize(
    "text", ["two\nlines", "a\u2028b", " space", "space ", "\t", "x" * 4001, "a\x85b"]
)
def test_a_note_that_is_not_one_line_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"sqs\.tag"):
        change(ORDERS, NO_SETTINGS, {"sqs.tag": text})


@pytest.mark.parametrize("name", ["sqs.", ".sqs", "sqs", "Sqs.wait", "sqs.a b", "sqs.a=b"])
def test_a_name_that_is_neither_a_setting_nor_a_note_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="unknown setting"):
        change(ORDERS, NO_SETTINGS, {name: "1"})
