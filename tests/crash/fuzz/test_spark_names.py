"""The names below `spark`: a claim, a marker or a list of attempts is what docs/lifecycle.md says,
or an error that names it; nothing else fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.spool.spark.claims import Group
from mq.spool.spark.group_owner import Owner
from mq.spool.spark.jobs import Job
from mq.spool.spark.marker_files import parse_number
from mq.spool.spool import Spool
from tests.crash.fuzz import grammar as right
from tests.crash.fuzz.drawing import lines_of, nearly
from tests.crash.fuzz.judging import Grammar, is_taken, judge_examples, judge_for
from tests.support.spark_files import visit_new_root

_SHORT_EXAMPLES = 40
_LONG_SECONDS = 100
"""For all of them together."""


class SparkFolders:
    """The folder `spark` of a root. It has a new group, or a new job, for each example."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._folder = spool.root / "spark"

    def group_of(self, names: list[str]) -> Group:
        claims = self._fresh("claims/group")
        for name in names:
            (claims / name).touch()
        return Group(self._spool, "group", "driver")

    def judge_owner(self, value: str) -> None:
        """`query.ID.N`."""
        group = self.group_of([f"query.{value}"])
        query, _, number = value.rpartition(".")
        if right.is_number(number):
            assert group.owner() == Owner(query, int(number))
        else:
            assert not is_taken(group.owner, ClaimError)

    def judge_floor(self, value: str) -> None:
        """`floor.N`."""
        group = self.group_of([f"floor.{value}"])
        if right.is_number(value):
            assert group.floor() == int(value)
        else:
            assert not is_taken(group.floor, ClaimError)

    def judge_claims(self, names: list[str]) -> None:
        """`N.open.ID` is an open batch, `N` a sealed one."""
        group = self.group_of(names)
        is_open = re.compile(r"[0-9]+\.open\.[A-Za-z0-9-]+").fullmatch
        assert sorted(group.open_claims()) == sorted(filter(is_open, names))
        assert group.sealed() == sorted(int(each) for each in names if right.is_number(each))

    def judge_batches(self, names: list[str]) -> None:
        for name in names:
            (self._fresh("txn/job") / name).touch()
            numbers = [int(name)] if right.is_number(name) else []
            assert Job(self._spool, "job").listed() == numbers
            assert parse_number(name) == (int(name) if numbers else None)

    def judge_winners(self, text: str) -> None:
        """A line for each attempt, and each line is whole."""
        (self._fresh("txn/job") / "7").write_bytes(text.encode())
        *attempts, rest = text.split("\n")
        if not rest and all(map(right.is_attempt, attempts)):
            assert Job(self._spool, "job").winners(7) == attempts
        else:
            assert not is_taken(lambda: Job(self._spool, "job").winners(7), ClaimError)

    def _fresh(self, name: str) -> Path:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def _is_file_name(text: str) -> bool:
    return text not in {"", ".", ".."} and not set(text) & {"/", "\0"} and len(text.encode()) < 240


_NUMBERS = nearly("0|[1-9][0-9]{0,18}", "[0-9]{1,20}").filter(_is_file_name)
_VALUES = nearly("[a-z0-9-]{1,9}[.](0|[1-9][0-9]{0,18})").filter(_is_file_name)
_NAMES = st.lists(
    _NUMBERS | nearly(r"[0-9]{1,3}\.open\.[A-Za-z0-9-]{1,9}").filter(_is_file_name),
    max_size=4,
    unique=True,
)
_ATTEMPTS = lines_of(nearly(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", "[0-9]-[0-9][.]open"))

GRAMMARS: dict[str, tuple[st.SearchStrategy[Any], Callable[[SparkFolders], Callable[[Any], None]]]]
GRAMMARS = {
    "owner": (_VALUES, lambda folders: folders.judge_owner),
    "floor": (_NUMBERS, lambda folders: folders.judge_floor),
    "claims": (_NAMES, lambda folders: folders.judge_claims),
    "batches": (_NAMES, lambda folders: folders.judge_batches),
    "winners": (_ATTEMPTS, lambda folders: folders.judge_winners),
}


@pytest.fixture(scope="module")
def folders(quick_folder: Path) -> Iterator[SparkFolders]:
    spool = visit_new_root(quick_folder / "root", Files())
    yield SparkFolders(spool)
    spool.close()


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_reads_a_name_agrees_with_its_grammar(folders: SparkFolders, name: str) -> None:
    drawn, judge = GRAMMARS[name]
    judge_examples(Grammar(drawn, judge(folders)), _SHORT_EXAMPLES)


def test_only_a_newline_ends_the_line_of_an_attempt(folders: SparkFolders) -> None:
    for text in ("a\x1cb\n", "a\x0bb\n", "a\r\n", "a\rb\n", "a\n\n", "a", ""):
        folders.judge_winners(text)


@pytest.mark.crash_long
@pytest.mark.parametrize("name", GRAMMARS)
def test_what_reads_a_name_agrees_with_its_grammar_for_longer(
    folders: SparkFolders, name: str
) -> None:
    drawn, judge = GRAMMARS[name]
    judge_for(Grammar(drawn, judge(folders)), _LONG_SECONDS / len(GRAMMARS))
