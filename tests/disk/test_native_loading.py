"""Whether the native part is used: if it is there, of this version, and not switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from mq.disk import calls


def state(**environment: str) -> str:
    """What a new process says."""
    done = subprocess.run(
        [sys.executable, "-c", "from mq.disk import calls; print(calls.STATE.name)"],
        check=True, capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_variable_switches_it_off() -> None:
    assert state(MQ_NATIVE="0") == state(MQ_NATIVE="off") == "SWITCHED_OFF"
    assert state(MQ_NATIVE="1") == state(MQ_NATIVE="") != "SWITCHED_OFF"


def test_one_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lies about from an earlier build knows other calls."""
    other = ModuleType("mq.disk._native")
    other.CALLS = "OPEN f\n"  # type: ignore[attr-defined]
    monkeypatch.delenv(calls.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "mq.disk._native", other)
    monkeypatch.setattr("mq.disk._native", other, raising=False)

    assert calls._load() == (None, calls.CallState.OF_ANOTHER_VERSION)


def test_none_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(calls.VARIABLE, raising=False)
    monkeypatch.delattr("mq.disk._native", raising=False)
    monkeypatch.setitem(sys.modules, "mq.disk._native", None)

    assert calls._load() == (None, calls.CallState.NOT_COMPILED)


def test_the_calls_of_the_source_are_those_of_the_module(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(calls.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "mq.disk._native", native)
    monkeypatch.setattr("mq.disk._native", native, raising=False)

    assert calls._load() == (native, calls.CallState.COMPILED)
