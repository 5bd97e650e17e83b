"""The memory of answers: what a client that left held is free again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mq.config import MIB
from mq.store.answer_memory import AnswerMemory, Share


@pytest.mark.parametrize(
    ("use", "step"),
    [
        (Share.room_bytes, "take"),
        (lambda share: share.covers(MIB), "take"),
        (lambda share: share.hold_bodies(MIB), "change"),
    ],
    ids=["room_bytes", "covers", "hold_bodies"],
)
def test_a_client_that_leaves_while_its_share_changes_leaves_nothing_held(
    use: Callable[[Share], object], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operation still runs, on another thread."""
    memory = AnswerMemory()
    share = memory.share()
    leaving = threading.Thread(target=share.__exit__, args=(None, None, None))
    take_step = getattr(memory, step)

    def step_and_leave(*given: int) -> int | None:
        monkeypatch.undo()
        held: int | None = take_step(*given)
        leaving.start()
        leaving.join(0.1)
        return held

    monkeypatch.setattr(memory, step, step_and_leave)
    use(share)

    leaving.join()
    assert memory._held_bytes == 0
