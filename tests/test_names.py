"""Names: what is parsed, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.errors import InvalidName
from mq.names import (
    dead_letter_queue,
    file_name,
    is_message_id,
    parse_file_name,
    parse_message_id,
    parse_message_ids,
    parse_queue_name,
)

queue_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", fullmatch=True)
message_ids = st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True)


@given(queue_names, message_ids)
def test_file_name_is_split_into_the_parts_it_was_made_of(queue: str, message_id: str) -> None:
    name = file_name(parse_queue_name(queue), parse_message_id(message_id))

    assert parse_file_name(name) == (queue, message_id)


@given(st.text(max_size=90))
def test_whatever_is_taken_as_a_name_is_one_plain_file_name(text: str) -> None:
    for parse in (parse_queue_name, parse_message_id):
        try:
            name = parse(text)
        except InvalidName:
            continue
        assert name == text
        assert len(name) <= 85
        assert not set(name) & set("/:\0\n%~ ")
        assert name[0] != "."


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", ".hidden", "_q", "-q", "a/b", "../etc", "a:b", "a\0", "a\n", "a b", "ä", "²",
        "a%2fb", "%2e%2e", "a" * 81, "a" * 86, "a" * 81 + ".dead",
    ],
)  # fmt: skip
def test_queue_name_with_anything_else_in_it_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_queue_name(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a.b", "a_b", "a/b", "a:b", "a\n", "a" * 65, "٣"])
def test_message_id_with_anything_else_in_it_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_message_id(text)

    assert not is_message_id(text)


@given(st.text(st.sampled_from("a-Z9,. \n"), max_size=140))
def test_a_list_of_ids_is_taken_if_each_of_them_is(text: str) -> None:
    expected: list[str] | None
    try:
        expected = [parse_message_id(each) for each in text.split(",")]
    except InvalidName:
        expected = None

    if expected is None:
        with pytest.raises(InvalidName):
            parse_message_ids(text)
    else:
        assert parse_message_ids(text) == expected


@pytest.mark.parametrize("name", ["orders", "orders/1", ":1", "orders:", "o:1:2", ".o:1", "o:1~2"])
def test_file_name_of_another_form_is_not_a_message(name: str) -> None:
    assert parse_file_name(name) is None


@given(queue_names)
def test_every_queue_but_a_dead_letter_queue_has_one_with_a_valid_name(queue: str) -> None:
    dead = dead_letter_queue(parse_queue_name(queue))

    if queue.endswith(".dead"):
        assert dead is None
    else:
        assert dead is not None
        assert parse_queue_name(dead) == f"{queue}.dead"
        assert dead_letter_queue(dead) is None
