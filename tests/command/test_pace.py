"""How many, how fast, and how long yet."""

from __future__ import annotations

import pytest

from mq.command.pace import duration_text, messages_text, pace_texts


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 messages"), (1, "1 message"), (20, "20 messages")]
)
def test_one_message_is_not_several(number: int, text: str) -> None:
    assert messages_text(number) == text
    assert messages_text(number, "ready") == text.replace(" ", " ready ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (150, "2 min"), (5400, "1.5 h"), (86_400, "1.0 d")],
)
def test_a_duration_is_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("done", "left", "seconds", "texts"),
    [
        (2000, 9000, 10.0, ["200/s", "45 s left"]),
        (2000, 1, 10.0, ["200/s", "0 s left"]),
        (2000, None, 10.0, ["200/s"]),
        (2000, 0, 10.0, ["200/s"]),
        (9, -4, 3.0, ["3/s"]),
        (0, 9000, 10.0, ["0/s"]),
        (5, 5, 0.0, ["0/s"]),
    ],
)
def test_the_time_left_is_shown_where_it_is_known(
    done: int, left: int | None, seconds: float, texts: list[str]
) -> None:
    assert pace_texts(done, left, seconds) == texts
