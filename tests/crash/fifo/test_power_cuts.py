"""Every state that a power cut can leave of FIFO queues, restarted: nothing answered is lost,
nothing deleted comes back, and order, locks of groups, receipts and deduplication hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq_sqs.fifo import publishing
from tests.crash.enumeration.interference import A_FILE, WithoutSync
from tests.crash.enumeration.sites import at
from tests.crash.fifo.cuts import enumerate_play
from tests.crash.fifo.plays import PLAYS
from tests.support.figures import PrintFigures

SHORT, LONG = 100, 1000
MOST_SHOWN = 3


@pytest.mark.parametrize("name", PLAYS)
def test_what_was_answered_of_a_fifo_queue_holds_after_a_cut_anywhere(
    name: str, quick_folder: Path, print_figures: PrintFigures
) -> None:
    _check(name, quick_folder, print_figures, SHORT)


def test_batch_whose_data_is_synced_after_its_names_is_seen(quick_folder: Path) -> None:
    """What a cut leaves of it would come before what its sender sends again."""
    interference = WithoutSync(at(publishing._link_all, A_FILE))

    _, found = enumerate_play(quick_folder, "send", SHORT, interference)

    assert any("is there without" in what for what in found)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PLAYS)
def test_what_was_answered_of_a_fifo_queue_holds_after_a_cut_anywhere_in_long_runs(
    name: str, quick_folder: Path, print_figures: PrintFigures
) -> None:
    _check(name, quick_folder, print_figures, LONG)


def _check(name: str, folder: Path, print_figures: PrintFigures, least: int) -> None:
    states, found = enumerate_play(folder, name, least)

    print_figures("States of FIFO queues that were restarted", f"{states:>6} {name}")
    assert not found, "\n".join(found[:MOST_SHOWN])
    assert states >= least
