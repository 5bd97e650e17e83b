"""Texts that are nearly what a grammar allows: right ones, most of them edited once or twice."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.crash.fuzz.json_text import Drawn

_ODD = [
    *"\0\t\n\v\f\r\x1c\x1f \x7f\x85\xa0\u0130\u0131\u017f\u0661\u00b2\u2028\u202e\u3000\ufeff",
    *"\uff10\U0001f40d",
    *"%/:?#&=+;,.~-_*\\'\"{}[]0aZ",
    "..", "//", "%2F", "%00", "%zz", "\r\n", "\n\n", "0" * 90, "a" * 70, "9" * 400,
]  # fmt: skip

QUEUE = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}(\.dead|\.fifo)?"
ID = "[A-Za-z0-9-]{1,64}"
SECONDS = r"[0-9]{1,12}(\.[0-9]{1,9})?"

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@st.composite
def edited(draw: Drawn, right: st.SearchStrategy[str]) -> str:
    """A right text, with up to two places of it replaced."""
    text = draw(right)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(_ODD) | ANY_TEXT)
        text = text[:at] + piece + text[at + draw(st.integers(0, 2)) :]
    return text


def nearly(*patterns: str) -> st.SearchStrategy[str]:
    """Texts that match one of these regular expressions, edited; and any text at all."""
    right = st.one_of(*(st.from_regex(each, fullmatch=True) for each in patterns))
    return edited(right) | ANY_TEXT


@st.composite
def lines_of(draw: Drawn, *lines: st.SearchStrategy[str]) -> str:
    """A few lines, with any kind of end."""
    found = draw(st.lists(st.one_of(*lines), max_size=4))
    ends = [draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", " \n", ""])) for _ in found]
    return "".join(line + end for line, end in zip(found, ends, strict=True))


PROPERTY_NAMES = nearly(
    "x-meta-[a-z]{1,4}", "ce-[a-z]{1,3}", "traceparent|baggage|content-language"
)
