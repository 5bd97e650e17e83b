"""Three stores, a mover, a reaper and a person on one root, against a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.crash.peers.machine import PeersMachine

pytestmark = pytest.mark.slow


def _check(folder: Path, max_examples: int, steps: int, *, derandomize: bool) -> None:
    class OnFolder(PeersMachine):
        pass

    OnFolder.folder = folder
    limits = settings(
        max_examples=max_examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=derandomize,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(OnFolder, settings=limits)


def test_peers_do_what_the_model_says(quick_folder: Path) -> None:
    _check(quick_folder, max_examples=40, steps=30, derandomize=True)


@pytest.mark.crash_long
def test_peers_do_what_the_model_says_for_long(quick_folder: Path) -> None:
    _check(quick_folder, max_examples=1500, steps=50, derandomize=False)
