"""VSQS: many processes on one queue, killed at random."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.vsqs_worker import read_log
from tests.support.processes import wait_until
from tests.support.vsqs import names_in
from vsqs.queue import Queue

FOR_EVER = 100_000.0
"""Seconds: no message comes back in this test."""


class LoadSize(NamedTuple):
    """How large a test is."""

    publishers: int
    consumers: int
    messages: int
    kills: int

    def __str__(self) -> str:
        return f"{self.publishers}+{self.consumers}x{self.messages}"


LONG_MARKS = [pytest.mark.crash_long, pytest.mark.timeout(900)]
SHORT = LoadSize(8, 8, 1600, 20)
LONG = LoadSize(8, 8, 20_000, 200)
SIZES = [SHORT, pytest.param(LONG, marks=LONG_MARKS)]


class Crowd:
    """Workers on one folder, each with a log; a killed one is followed by another with its own."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "queue"
        self._place = place
        self._logs: list[Path] = []
        self.running: dict[subprocess.Popen[bytes], tuple[str, ...]] = {}

    def start(self, action: str, *arguments: object) -> None:
        words = tuple(map(str, arguments))
        log = self._place / f"{len(self._logs)}.log"
        self._logs.append(log)
        if action != "consume":
            words = (f"{words[0]}.{len(self._logs)}", *words[1:])
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.vsqs_worker", action, self.folder, log, *words],
            stdin=subprocess.PIPE,
        )
        self.running[worker] = (action, *map(str, arguments))

    def said(self, word: str) -> list[list[str]]:
        return [line[1:] for log in self._logs for line in read_log(log) if line[0] == word]

    def wait_for(self, word: str, times: int) -> None:
        """So often, or more; by all together."""
        wait_until(lambda: len(self.said(word)) >= times, 600)

    def begin(self) -> None:
        """Let publishers begin once all are there."""
        publishers = [w for w, words in self.running.items() if words[0] != "consume"]
        wait_until(lambda: len(self.said("open")) >= len(publishers), 60)
        for worker in publishers:
            self._go(worker)

    def kill_one(self) -> None:
        """Kill one process and start another like it; a publisher begins at once."""
        worker = random.choice(list(self.running))
        words = self.running.pop(worker)
        was_running = worker.poll() is None
        _kill(worker)
        if was_running:
            self.start(*words)
            self._go(list(self.running)[-1])

    def _go(self, worker: subprocess.Popen[bytes]) -> None:
        assert worker.stdin is not None
        worker.stdin.write(b"go\n")
        worker.stdin.close()

    def end(self) -> None:
        for worker in self.running:
            _kill(worker)


def _kill(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait(10)
    assert worker.stdin is not None
    worker.stdin.close()


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    started = Crowd(tmp_path)
    yield started
    started.end()


def kill_at_random(crowd: Crowd, size: LoadSize) -> None:
    """Spread over the time that the crowd has work."""
    for kill in range(size.kills):
        crowd.wait_for("published", size.messages * kill // size.kills)
        time.sleep(random.random() / 50)
        crowd.kill_one()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nothing_is_lost_and_nothing_comes_twice_within_its_timeout(
    crowd: Crowd, size: LoadSize
) -> None:
    for number in range(size.publishers):
        crowd.start("publish", number, size.messages, 0)
    for _ in range(size.consumers):
        crowd.start("consume", FOR_EVER)
    crowd.begin()

    kill_at_random(crowd, size)
    crowd.wait_for("published", size.messages)
    crowd.wait_for("received", size.messages // 3)
    crowd.end()

    on_disk = {name.partition(".")[0] for name in names_in(crowd.folder) if ".new" not in name}
    received = Counter(message_id for message_id, _ in crowd.said("received"))
    published = dict(crowd.said("published"))
    bodies = Counter(body for _, body in crowd.said("received"))
    assert published.keys() - received.keys() - on_disk == set()
    assert [each for each, times in (received | bodies).items() if times > 1] == []
    assert {i for [i] in crowd.said("deleted")} & on_disk == set()
    assert all(published.get(each, body) == body for each, body in crowd.said("received"))


def test_what_killed_consumers_held_comes_back(crowd: Crowd) -> None:
    size = LoadSize(4, 4, 600, 12)
    for number in range(size.publishers):
        crowd.start("publish", number, size.messages // size.publishers, 0)
    for _ in range(size.consumers):
        crowd.start("consume", 1.0)
    crowd.begin()
    for kill in range(size.kills):
        crowd.wait_for("deleted", 40 * kill)
        victims = [w for w, words in crowd.running.items() if words[0] == "consume"]
        victim = random.choice(victims)
        words = crowd.running.pop(victim)
        _kill(victim)
        crowd.start(*words)

    with Queue(crowd.folder) as queue:
        wait_until(lambda: len(crowd.said("done")) == size.publishers, 60)
        wait_until(lambda: queue.size() == 0, 60)

    received = {message_id for message_id, _ in crowd.said("received")}
    published = {message_id for message_id, _ in crowd.said("published")}
    assert len(published) == size.messages
    assert received <= published
    assert len(published - received) <= size.kills


STRICT = [
    ("publish", 800),
    ("publish_seldom", 320),
    pytest.param("publish", 20_000, marks=LONG_MARKS),
    pytest.param("publish_seldom", 8_000, marks=LONG_MARKS),
]


@pytest.mark.parametrize(("publish", "messages"), STRICT)
def test_one_consumer_receives_in_strict_order_whatever_the_clocks(
    crowd: Crowd, publish: str, messages: int
) -> None:
    """Each publisher's clock says something else."""
    clocks = (0, -3600, 5, -1, 0, 86_400, -7, 1)
    for number, seconds in enumerate(clocks):
        crowd.start(publish, number, messages // len(clocks), seconds)
    crowd.start("consume", FOR_EVER)

    crowd.begin()
    crowd.wait_for("deleted", messages)

    received = crowd.said("received")
    ids = [int(message_id) for message_id, _ in received]
    assert ids == sorted(set(ids))
    for number in range(len(clocks)):
        ours = [body for _, body in received if body.startswith(f"{number}.")]
        assert ours == sorted(ours)
        assert len(ours) == messages // len(clocks)
