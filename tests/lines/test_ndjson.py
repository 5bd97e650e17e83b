"""The lines of a batch, `export` and `import`: one form, and one answer to what is not in it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.config import MIB, SMALL_BODY_BYTES
from mq.errors import InvalidBatch, InvalidRequest
from mq.lines.ndjson import Line, body_member, parse_line, write_line
from mq.lines.transfer import READ_BYTES, exported, put_in
from mq.names import MessageId
from mq.web.endpoints.batch_lines import parse_batch
from tests.support.batches import BAD_LINES, GOOD

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def one_by_one(_: Sequence[Line]) -> Callable[[], bool]:
    return lambda: False


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_batch_and_an_import_say_the_same_of_a_bad_line(line: bytes) -> None:
    imported: list[Line] = []
    with pytest.raises(InvalidBatch) as batch:
        parse_batch(GOOD + b"\n" + line, 1000)

    with pytest.raises(InvalidBatch) as put:
        list(put_in(io.BytesIO(GOOD + b"\n" + line), imported.append, one_by_one))

    assert BAD_LINES[line] in str(batch.value)
    assert str(batch.value).startswith("line 3: ")
    assert str(put.value) == f"{batch.value}; 1 message published before it"
    assert imported == [Line(b"good")]


def test_the_last_of_many_members_twice_is_found_at_once() -> None:
    """64 KiB of members blocked the server for seconds, and a whole batch of them for hours."""
    members = ",".join(f'"{number:x}":0' for number in range(20_000))

    with pytest.raises(InvalidRequest, match="'last' is given twice"):
        parse_line(f'{{{members},"last":1,"last":2}}'.encode())


@pytest.mark.parametrize(
    "line",
    [
        b'{"body": [%b0]}' % (b"{}," * 30_000),
        b"{%b}" % b",".join(b'"%d": 1' % number for number in range(30_000)),
        b'{"body": "a"%b}' % (b" " * 70_000),
        b"[" * 70_000,
        b'{"body": "a"%b}' % (b'""' * 70_000),
    ],
)
def test_a_line_of_little_but_structure_is_refused_before_it_is_read(line: bytes) -> None:
    """json made 500 MiB of 16, and held up all other requests for a second."""
    with pytest.raises(InvalidRequest, match="more than 65536 characters outside of its strings"):
        parse_line(line)


@pytest.mark.parametrize("text", ["a" * MIB, '"' * MIB, "\\" * MIB, "é\n" * MIB])
def test_a_long_body_is_no_structure(text: str) -> None:
    line = f'{" " * 60_000}{{"content_type": "a", {" " * 60_000} "body": {json.dumps(text)}}}'

    assert parse_line(line.encode()) == Line(text.encode(), content_type="a")


@pytest.mark.parametrize(
    "members",
    ['"%s": 1', '"id": "%s"', '"properties": {"%s": "1"}', '"properties": {"%s": 1}',
     '"%s": 1, "%s": 2'],
)  # fmt: skip
def test_a_name_of_megabytes_is_not_repeated_whole(members: str) -> None:
    """JSON has six bytes for each of its letters: writing them kept other requests waiting."""
    line = f'{{"body": "a", {members.replace("%s", "é" * MIB)}}}'.encode()

    with pytest.raises(InvalidBatch, match=r"'é{100}'\.\.\.") as refused:
        parse_batch(line, 1000)

    assert len(str(refused.value)) < 500


def test_a_batch_refuses_what_an_import_passes_over() -> None:
    received = write_line({"id": "a", "lease": "0f", "receive_count": 1}, b"body")
    imported: list[Line] = []

    with pytest.raises(InvalidBatch, match="line 1: unknown member 'lease'"):
        parse_batch(received, 1000)

    assert list(put_in(io.BytesIO(received), imported.append, one_by_one)) == [1]
    assert imported == [Line(b"body", MessageId("a"))]


def test_lines_that_can_be_read_at_once_are_imported_together() -> None:
    """A request, and a sync, for each line took minutes for what takes seconds."""
    large = b"x" * (SMALL_BODY_BYTES + 1)
    bodies = [*(b"%d" % number for number in range(1500)), large, b"last but one", b"last"]
    together: list[list[bytes]] = []
    alone: list[bytes] = []

    def begin(lines: Sequence[Line]) -> Callable[[], bool]:
        together.append([line.body for line in lines])
        return lambda: True

    read = io.BytesIO(b"".join(exported(Line(body)) for body in bodies))
    published = list(put_in(read, lambda line: alone.append(line.body), begin))

    assert [*(each for batch in together for each in batch), large] == [
        *bodies[:1500], *bodies[1501:], large
    ]  # fmt: skip
    assert alone == [large]
    assert ([len(batch) for batch in together], published) == (
        [1000, 500, 2], [1000, 1500, 1501, 1503]
    )  # fmt: skip


def test_the_next_lines_are_parsed_while_a_batch_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    one: list[Line] = []

    def parse(text: bytes, passed_over: Collection[str]) -> Line:
        if steps[-1:] != ["parse"]:
            steps.append("parse")
        return parse_line(text, passed_over)

    def begin(lines: Sequence[Line]) -> Callable[[], bool]:
        steps.append(f"begin {len(lines)}")
        return end

    def end() -> bool:
        steps.append("end")
        return True

    monkeypatch.setattr("mq.lines.transfer.parse_line", parse)
    published = list(put_in(io.BytesIO(2500 * (GOOD + b"\n")), one.append, begin))

    assert published == [1000, 2000, 2500]
    assert steps == [
        "parse", "begin 1000", "parse", "end", "begin 1000", "parse", "end", "begin 500", "end"
    ]  # fmt: skip
    assert one == []


def test_a_line_over_several_reads_is_imported_whole() -> None:
    body = b"x" * (3 * READ_BYTES)
    imported: list[Line] = []

    read = io.BytesIO(exported(Line(body)) + exported(Line(b"next")).rstrip())

    assert list(put_in(read, imported.append, one_by_one)) == [1, 2]
    assert [line.body for line in imported] == [body, b"next"]


@given(
    st.dictionaries(
        st.sampled_from(["id", "lease", "receive_count", "content_type", "properties", "delay"]),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
        | st.dictionaries(TEXTS, TEXTS, max_size=3),
    ),
    st.binary(max_size=40) | TEXTS.map(str.encode),
)  # fmt: skip
def test_a_line_is_what_json_writes(fields: dict[str, object], body: bytes) -> None:
    given_fields = {name: value for name, value in fields.items() if value is not None}
    document = json.dumps(given_fields | body_member(body), ensure_ascii=False)

    assert write_line(fields, body) == document.encode() + b"\n"


def test_an_empty_content_type_is_none() -> None:
    line = b'{"body": "a", "content_type": ""}'

    assert parse_line(line).content_type is None
    assert parse_batch(line, 1000)[0].draft.content_type is None


@pytest.mark.parametrize(
    "body", [b"", "k\xe4se \U0001f600\u2028".encode(), b"\xff\x00", b'"\\\n\x7f']
)
def test_what_is_exported_is_imported_as_it_was(body: bytes) -> None:
    line = Line(body, MessageId("a-1"), "text/plain")

    written = exported(line)

    assert parse_line(written) == line
    assert written.count(b"\n") == 1


def test_a_body_of_control_characters_is_not_too_long_for_an_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mq.lines.transfer.MAX_LINE_BYTES", 1000)
    lines = [Line(bytes(300), MessageId("a-1"), "text/plain"), Line(b"x" * 500)]
    imported: list[Line] = []

    written = [exported(line) for line in lines]

    assert list(put_in(io.BytesIO(b"".join(written)), imported.append, one_by_one)) == [1, 2]
    assert imported == lines
    assert [b"base64" in each for each in written] == [True, False]
