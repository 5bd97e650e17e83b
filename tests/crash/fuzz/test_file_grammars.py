"""Lines of a batch, files of settings and of tokens, and seals: what reads them takes what the
grammar of `tests/crash/fuzz/grammar.py` allows, refuses all else, and never fails otherwise."""

from __future__ import annotations

import base64
import json
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from mq.daemon.token_file import read_tokens
from mq.errors import BodyTooLarge, InvalidBatch, InvalidRequest, PropertiesTooLarge, StartRefused
from mq.names import QueueName
from mq.spool.message.seal import Seal
from mq.spool.message.trailer import split
from mq.spool.queue.queue_settings import parse_settings
from mq.web.endpoints.batch_lines import parse_batch
from tests.crash.fuzz import grammar as right
from tests.crash.fuzz.drawing import (
    ANY_TEXT,
    ID,
    PROPERTY_NAMES,
    QUEUE,
    SECONDS,
    edited,
    lines_of,
    nearly,
)
from tests.crash.fuzz.json_text import Drawn
from tests.crash.fuzz.judging import Grammar, is_taken, judge_examples, judge_for

_SHORT_EXAMPLES = 60
_LONG_SECONDS = 150
"""For all of them together."""

_SHORT_SECONDS = r"[0-9]{1,6}(\.[0-9]{1,3})?"


def judge_batch(text: bytes) -> None:
    count = right.lines_in(text)
    refusals = InvalidBatch, PropertiesTooLarge, BodyTooLarge

    assert is_taken(lambda: parse_batch(text, 1 << 20), *refusals) == (count is not None)
    if count is not None:
        assert len(parse_batch(text, 1 << 20)) == count


def judge_settings(example: tuple[str, str]) -> None:
    queue, text = example

    is_right = is_taken(lambda: parse_settings(QueueName(queue), text), InvalidRequest)

    assert is_right == right.are_settings(queue, text)
    if is_right:
        # What is written back says the same.
        read = parse_settings(QueueName(queue), text)
        assert parse_settings(QueueName(queue), read.text()) == read


def judge_tokens(text: str) -> None:
    names = right.token_names(text)
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        path = Path(file.name)

        assert is_taken(lambda: read_tokens(path), StartRefused) == (names is not None)
        if names is not None:
            assert [token.name for token in read_tokens(path)] == names


def judge_seal(example: tuple[bytes, bytes]) -> None:
    packed, data = example
    seal = Seal.unpack(packed)

    assert (seal is not None) == (len(packed) in (32, 48))
    if seal is None:
        return
    fields = struct.unpack(">QIQIQ" if len(packed) == 32 else ">QIQIQIIQ", packed)
    assert seal[: len(fields)] == fields
    assert Seal.unpack(seal.pack()) == seal
    content = split(seal, data)
    if content is not None:
        assert (len(content.body), zlib.crc32(content.body)) == (seal.length, seal.crc32)


# What is drawn

_BODIES = st.sampled_from([("body", "x"), ("body", ""), ("body_base64", "AAE=")]) | st.tuples(
    st.sampled_from(["body", "body_base64"]),
    ANY_TEXT | st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
    | st.just("\ud800"),
)  # fmt: skip
_PROPERTIES = st.dictionaries(PROPERTY_NAMES, nearly("[!-~]{0,9}", "[ -~]{0,4}"), max_size=3)
_OTHERS = st.one_of(
    st.tuples(st.just("id"), nearly(ID)),
    st.tuples(st.just("delay"), st.sampled_from([0, 1, 0.5, 31_536_000, 31_536_001, -1, 1e300])),
    st.tuples(st.just("delay"), st.floats(allow_nan=True) | st.integers()),
    st.tuples(st.just("content_type"), nearly("[ -~]{0,20}") | st.just("t" * 256)),
    st.tuples(st.just("properties"), _PROPERTIES),
    st.tuples(st.just("queue"), nearly(QUEUE)),
    st.tuples(st.sampled_from(["id", "delay", "content_type", "properties", "queue", "lease", ""]),
              st.sampled_from([None, True, 1, "1", [], {}, {"a": {}}, [["x"]]])),
)  # fmt: skip


@st.composite
def objects(draw: Drawn) -> str:
    members: list[tuple[str, Any]] = [draw(_BODIES), *draw(st.lists(_OTHERS, max_size=3))]
    # Written one by one, a name may come twice.
    inside = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in members)
    return f"{{{inside}}}"


_BATCHES = st.one_of(
    lines_of(edited(objects()), objects(), ANY_TEXT).map(lambda text: text.encode()),
    st.tuples(objects(), st.binary(max_size=4)).map(lambda two: two[0].encode() + two[1]),
)
_SETTINGS = lines_of(
    nearly(rf"(visibility|delay|ttl) ?= ?({SECONDS}|{_SHORT_SECONDS})", "paused=(true|false)"),
    nearly("(max-receives|max-messages)=[0-9]{1,9}", rf"dead-letters={QUEUE}", "#.{0,9}"),
    nearly(rf"also={QUEUE}(,{QUEUE}){{0,2}}"),
    nearly(r"sqs\.[a-z]{1,5}=[!-~]{0,9}", "(ttl|delay|paused)="),
)
_TOKENS = lines_of(
    nearly(r"[a-z]{1,3} (read|write|admin|read,write) [A-Za-z0-9._~+/-]{16,20}={0,2}"),
    nearly(r"[a-z]{1,3}[ \t]{1,2}admin ([a-z*.]{1,6}|a,b-\*) (sha256:[0-9a-f]{64}|[a-z]{16})"),
    nearly("#.{0,20}"),
)
_DATA = st.binary(max_size=60)


@st.composite
def seals(draw: Drawn) -> tuple[bytes, bytes]:
    data = draw(_DATA)
    if draw(st.booleans()):
        return draw(st.binary(max_size=50) | st.binary(min_size=32, max_size=32)), data
    at = draw(st.integers(0, len(data)))
    body, trailer = data[:at], data[at:]
    own = Seal(at, zlib.crc32(body), 1, 2, 3, len(trailer), zlib.crc32(trailer), 4)
    return own.pack(), data


GRAMMARS = {
    "batch": Grammar(_BATCHES, judge_batch),
    "settings": Grammar(
        st.tuples(st.sampled_from(["orders", "orders.dead"]), _SETTINGS), judge_settings
    ),
    "tokens": Grammar(_TOKENS, judge_tokens),
    "seals": Grammar(seals(), judge_seal),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_reads_a_file_agrees_with_its_grammar(name: str) -> None:
    judge_examples(GRAMMARS[name], _SHORT_EXAMPLES)


_TOKEN = "read 0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("batch", b'\v{"body": "x"}'),
        ("batch", b'\f\n{"body": "x"}'),
        ("settings", ("orders", "# said\u2028paused=true")),
        ("settings", ("orders", "#\vttl=never")),
        ("settings", ("orders", "delay=\u30001")),
        ("settings", ("orders", "paused=true\r\n\t \r\ndelay = 1\r\n")),
        ("tokens", f"# of the till:\u2028a {_TOKEN}\nb {_TOKEN}x"),
        ("tokens", f"# of the till:\va {_TOKEN}"),
        ("tokens", f"a\u00a0{_TOKEN}"),
        ("tokens", f"\ta\t {_TOKEN}\t\r\n\r\n"),
    ],
)
def test_only_the_spaces_and_line_ends_of_a_file_count(name: str, example: Any) -> None:
    """`str.strip`, `split` and `splitlines` know many more, and took them."""
    GRAMMARS[name].judge(example)


def test_a_token_for_queues_with_many_stars_is_compared_at_once(tmp_path: Path) -> None:
    """A pattern that tries every way to divide a name would never come to an end."""
    path = tmp_path / "tokens"
    path.write_text(f"a read {'*a' * 39}*b 0123456789abcdef\n")
    path.chmod(0o600)

    [token] = read_tokens(path)

    assert token.is_for(QueueName("a" * 75 + "b"))
    assert not token.is_for(QueueName("a" * 75))
    assert not token.is_for(QueueName("a" * 38 + "b"))


@pytest.mark.crash_long
@pytest.mark.parametrize("name", GRAMMARS)
def test_what_reads_a_file_agrees_with_its_grammar_for_longer(name: str) -> None:
    judge_for(GRAMMARS[name], _LONG_SECONDS / len(GRAMMARS))
