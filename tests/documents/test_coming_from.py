"""What docs/coming-from.md says of MQ is in the protocol, and its limits are those of the code."""

from __future__ import annotations

import re

import pytest

from mq.config import (
    MAX_ANSWER_MESSAGES,
    MAX_BATCH_LINES,
    MAX_DELAY_SECONDS,
    MAX_WAIT_SECONDS,
)
from tests.support.sources import REPOSITORY, read_table

DOCUMENT = "docs/coming-from.md"
TEXT = (REPOSITORY / DOCUMENT).read_text()
PROTOCOL = (REPOSITORY / "docs/protocol.md").read_text()
PEERS = re.findall(r"^## (.*)", TEXT, re.MULTILINE)


def ours(peer: str) -> str:
    """All of the column that says how MQ does it."""
    return "\n".join(row[1] for row in read_table(DOCUMENT, f"## {peer}"))


@pytest.mark.parametrize("peer", PEERS)
def test_each_row_has_three_cells_and_says_something(peer: str) -> None:
    rows = read_table(DOCUMENT, f"## {peer}")

    assert len(rows) >= 8
    assert [row for row in rows if len(row) != 3 or not row[0] or not (row[1] or row[2])] == []


@pytest.mark.parametrize("peer", PEERS)
def test_parameters_headers_and_settings_are_those_of_the_protocol(peer: str) -> None:
    text = ours(peer)

    parameters = set(re.findall(r"[?&]([a-z-]+)", text))
    headers = set(re.findall(r"\b(X-[\w-]+|ETag|If-Match)", text))
    settings = {
        name
        for names in re.findall(r"\bsettings? ((?:[a-z-]+(?:, | and )?)+)", text)
        for name in re.split(r", | and ", names)
    }
    assert {
        each for each in parameters if f"?{each}" not in PROTOCOL and f"`{each}" not in PROTOCOL
    } == set()
    assert {each for each in headers if each.rstrip("-") not in PROTOCOL} == set()
    known = {row[0] for row in read_table("docs/protocol.md", "#### Settings")}
    assert settings <= known


def test_limits_are_those_of_the_code() -> None:
    differs = {row[1]: row[2] for row in read_table(DOCUMENT, "## SQS")}

    assert differs["?max=N"] == f"up to {MAX_ANSWER_MESSAGES:,}"
    assert differs["?wait=S"] == f"up to {MAX_WAIT_SECONDS:g}"
    assert differs["?delay=S"] == f"up to {MAX_DELAY_SECONDS // 86400} days"
    assert f"{MAX_BATCH_LINES:,} messages" in differs["POST /orders/messages?batch"]


def test_every_peer_is_in_the_list_at_the_top() -> None:
    assert re.findall(r"\[([\w/]+)\]\(#\w+\)", TEXT.partition("\n## ")[0]) == PEERS
