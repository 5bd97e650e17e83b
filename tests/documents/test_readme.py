"""The README leads to everything, and what it says of itself holds."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.sources import REPOSITORY, read_table

TEXT = (REPOSITORY / "README.md").read_text()
INDEX = TEXT.partition("\n## Documents")[2]
FIRST_SCREEN_LINES = 27


def test_every_document_is_in_the_index() -> None:
    documents = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("*/*.md")]
    names = {str(path.relative_to(REPOSITORY)) for path in documents} - {"README.md"}

    linked = set(re.findall(r"\]\(([\w./-]+)\)", INDEX))

    assert {name for name in names if not name.startswith(".") and name not in linked} == set()


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_first_screen_has_the_commands_to_begin_with(command: str) -> None:
    assert command in "\n".join(TEXT.splitlines()[:FIRST_SCREEN_LINES])


@pytest.mark.parametrize(
    ("connections", "said"),
    [(1, r"one client publishes ([0-9,]+) messages"), (64, r"64 clients publish ([0-9,]+)\s")],
)
def test_the_rates_are_those_of_the_figures(connections: int, said: str) -> None:
    wanted = {
        "part": "requests", "server": "mq", "place": "ext4", "width": connections,
        "phase": "publish",
    }  # fmt: skip
    rows = json.loads((REPOSITORY / "docs/performance.json").read_text())["rows"]

    (row,) = [row for row in rows if wanted.items() <= row.items()]

    assert re.findall(said, TEXT) == [f"{round(row['per_second'], -2):,.0f}"]


def test_each_row_of_the_comparison_says_something_of_each_queue() -> None:
    heading = "## Who should use it, and who should not"
    rows = read_table("README.md", heading)

    assert len(rows) >= 12
    assert [row for row in rows if len(row) != 8 or "" in row] == []


def test_the_picture_is_there() -> None:
    [picture] = re.findall(r"!\[[^\]]+\]\(([\w./]+)\)", TEXT)

    assert (REPOSITORY / picture).read_bytes().startswith(b"\x89PNG")


def test_nothing_is_promised_for_later() -> None:
    assert re.findall(r"not there yet|coming soon|planned|will be able", TEXT) == []
