"""Errors that go from one process to another."""

from __future__ import annotations

import copy
import pickle

import pytest

from mq.client import (
    ClientError,
    IdTaken,
    LeaseLost,
    NoAnswer,
    Problem,
    TooOld,
    Unavailable,
    UnexpectedAnswer,
)

PROBLEM = Problem("urn:mq:problem:unavailable", "Title", 503, "why")
ERRORS = [
    NoAnswer("gone", is_cut_off=True),
    Unavailable("busy", PROBLEM, 7.0),
    UnexpectedAnswer("it is something else"),
    UnexpectedAnswer("it is something else", PROBLEM, way_out=None),
    LeaseLost("lost"),
    IdTaken("taken", PROBLEM),
    TooOld("too old", PROBLEM),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_error_is_the_same_in_another_process(error: ClientError) -> None:
    for one in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(one), str(one), vars(one)) == (type(error), str(error), vars(error))
