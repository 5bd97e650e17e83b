"""What a bar shows, and when."""

from __future__ import annotations

import io
import os

import pytest

from mq.ctl.screen.progress import ProgressBar, progress_text, said_when_interrupted


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class SteppedClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_takes_a_second_at_most_shows_nothing() -> None:
    clock, terminal = SteppedClock(), FakeTerminal()

    with ProgressBar("moving", 10, terminal, clock) as bar:
        for bar_at, clock.now in ((1, 0.5), (10, 0.99)):
            bar.tell(bar_at)

    assert terminal.getvalue() == ""
    assert bar.done == 10


def test_what_takes_longer_shows_a_line_that_is_gone_at_the_end() -> None:
    clock, terminal = SteppedClock(), FakeTerminal()

    with ProgressBar("moving", 100, terminal, clock) as bar:
        for bar_at, clock.now in ((25, 2.0), (26, 2.01), (50, 4.0)):
            bar.tell(bar_at)

    assert terminal.getvalue().split("\r\x1b[K") == [
        "",
        "moving [######                  ]  25%, 25 of 100, 12/s, 6 s left",
        "moving [############            ]  50%, 50 of 100, 12/s, 4 s left",
        "",
    ]


def test_a_narrow_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTerminal, "fileno", lambda terminal: 1)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((20, 5)))
    clock, terminal = SteppedClock(), FakeTerminal()
    clock.now = 5.0

    bar = ProgressBar("moving", 100, terminal, lambda: clock.now)
    clock.now = 7.0
    bar.tell(50)

    assert terminal.getvalue() == "\r\x1b[Kmoving [############ "[:-2]


def test_what_is_no_terminal_gets_nothing() -> None:
    clock, file = SteppedClock(), io.StringIO()

    with ProgressBar("moving", 100, file, clock) as bar:
        clock.now = 60.0
        bar.tell(50)

    assert file.getvalue() == ""


def test_a_terminal_that_obeys_no_escapes_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    clock, terminal = SteppedClock(), FakeTerminal()

    with ProgressBar("moving", 100, terminal, clock) as bar:
        clock.now = 60.0
        bar.tell(50)

    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (1234, None, 2.0, "x 1,234, 617/s"),
        (0, 0, 2.0, "x 0, 0/s"),
        (0, 5, 2.0, "x [                        ]   0%, 0 of 5, 0/s"),
        (9, 5, 3.0, "x [########################] 100%, 9 of 5, 3/s"),
        (1, 1001, 1.0, "x [                        ]   0%, 1 of 1,001, 1/s, 17 min left"),
    ],
)
def test_the_line_says_what_is_known(
    done: int, total: int | None, seconds: float, text: str
) -> None:
    assert progress_text("x", done, total, seconds) == text


def test_an_interrupt_is_reported_and_goes_on() -> None:
    said = []

    with pytest.raises(KeyboardInterrupt), said_when_interrupted(lambda: said.append(1)):
        raise KeyboardInterrupt

    with said_when_interrupted(lambda: said.append(2)):
        pass
    assert said == [1]
