"""Every state that a power cut can leave, restarted: no promise is broken.

docs/reliability.md says how that is done.
"""

from __future__ import annotations

import os
import stat
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mq.lifecycle import PurgeScope
from mq.names import MessageId, QueueName
from tests.crash.enumeration.acting import Chance, long_queues, step_in_before, stock
from tests.crash.enumeration.clients import PlayedClients
from tests.crash.enumeration.disk import Said
from tests.crash.enumeration.ending import remove, remove_in_a_move, remove_twice
from tests.crash.enumeration.interplay import mixed, two_servers
from tests.crash.enumeration.properties import draft_of
from tests.crash.enumeration.recorder import OLD, RecordedFiles
from tests.crash.enumeration.rows import ROWS, Play, Row
from tests.crash.enumeration.runs import HEAD, LONG, SHORT, Enumerated, enumerate_row, play
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.states import states_of
from tests.support.figures import PrintFigures
from tests.support.submits import publish_as_asked

MOST_SHOWN = 3
PURGES = 6

ANSWERED = Said(lambda ledger: None)

LEAST_STATES, LEAST_RESTART_STATES = 29_000, 120_000
"""Of all long runs together: docs/reliability.md has the figures."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_was_answered_holds_after_a_cut_anywhere(
    row: Row, quick_folder: Path, print_figures: PrintFigures
) -> None:
    enumerated = enumerate_row(quick_folder, row, SHORT)

    print_figures(HEAD, enumerated.line())
    assert not enumerated.violations, "\n".join(enumerated.violations[:MOST_SHOWN])
    assert len(enumerated.counts.states) >= SHORT.states


@pytest.mark.parametrize("step", ["write_out", "stamp"])
def test_without_a_step_of_the_sync_of_the_log_messages_are_torn(
    step: str, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On ext4 data is written out, and the time of `new` set, before the log is synced."""
    make = getattr(RecordedFiles, step)

    def leave_out(files: RecordedFiles, fd: int, *arguments: int) -> None:
        if step == "stamp" and not stat.S_ISDIR(os.fstat(fd).st_mode):
            make(files, fd, *arguments)

    monkeypatch.setattr(RecordedFiles, step, leave_out)
    [row] = [row for row in ROWS if row.name == "publish, many at once, ext4"]

    assert enumerate_row(quick_folder, row, SHORT).violations


@pytest.mark.parametrize("played", [remove, remove_twice, remove_in_a_move, mixed, two_servers])
def test_what_was_answered_holds_where_a_move_is_a_link_and_an_unlink(
    played: Play, quick_folder: Path
) -> None:
    """A sync of the folder that a name came to does not tell that the old name is gone."""
    enumerated = enumerate_row(quick_folder, Row(played.__name__, played, OLD), SHORT)

    assert not enumerated.violations, "\n".join(enumerated.violations[:MOST_SHOWN])


def test_settings_are_there_whatever_is_left_of_a_purge(quick_folder: Path) -> None:
    """A long queue gets another folder, and its settings a second name in that."""
    for number in range(PURGES):
        scene = play(quick_folder / "run", Row("with settings", _purge_with_settings), number)
        left = [
            [file.data for file in cut.state.files if "queues/a/.settings" in file.paths]
            for cut in states_of(scene.disk, scene.since)
        ]

        assert left
        assert left == [[b"visibility=60\n"]] * len(left)


def _purge_with_settings(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=2, leased=chance.randrange(2))
    clients.run(clients.store.change_settings(QueueName("a"), {"visibility": "60"}))
    scene.settle()
    scene.begin()
    with long_queues():
        clients.run(clients.purge("a", chance.choice(list(PurgeScope))), clients.publish("a"))


def test_an_id_that_was_answered_as_known_is_known_after_a_cut(quick_folder: Path) -> None:
    """Another server has moved its message to the queue, and the barrier of that is not over."""
    scene = play(quick_folder / "run", Row("known", _publish_what_is_moved), 0)
    [answered] = [number for number, event in enumerate(scene.disk.events) if event == ANSWERED]
    left = [
        [path for file in cut.state.files for path in file.paths if path.endswith("own")]
        for cut in states_of(scene.disk, answered)
    ]

    assert left
    assert left == [["queues/a/own"]] * len(left)


def _publish_what_is_moved(scene: Scene, chance: Chance) -> None:
    clients = stock(scene, chance, ready=0)
    others = PlayedClients(scene)
    [message] = clients.run(clients.publish("a.b", own_id="own"))
    scene.settle()

    async def publish_again() -> None:
        draft = draft_of(message.body, MessageId("own"), 0)
        published = await publish_as_asked(clients.store, QueueName("a"), draft)
        assert published.is_duplicate
        scene.disk.say(ANSWERED.fact)

    step_in_before(others.files, "sync", lambda: clients.run(publish_again()))
    others.run(others.move(message, "a"))


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
def test_what_was_answered_holds_after_a_cut_anywhere_in_long_runs(
    quick_folder: Path, print_figures: PrintFigures
) -> None:
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        rows = list(processes.map(partial(_enumerate_long, quick_folder), range(len(ROWS))))

    states = set().union(*(row.counts.states for row in rows))
    restarts = set().union(*(row.counts.restart_states for row in rows))
    for row in rows:
        print_figures(HEAD, row.line())
    print_figures(HEAD, f"{'different in all':<56}{len(states):>8}{len(restarts - states):>10}")
    violations = [violation for row in rows for violation in row.violations]
    assert not violations, "\n".join(violations[:MOST_SHOWN])
    assert len(states) >= LEAST_STATES
    assert len(restarts - states) >= LEAST_RESTART_STATES


def _enumerate_long(folder: Path, number: int) -> Enumerated:
    return enumerate_row(folder / str(number), ROWS[number], LONG)
