"""The lines of a batch, `export` and `import`: one form, and one answer to what is not in it."""

from __future__ import annotations

import io

import pytest

from mq.errors import InvalidBatch, InvalidRequest
from mq.names import MessageId
from mq.ndjson import Line, parse_line, write_line
from mq.transfer import exported, put_in
from mq.web.batch_lines import parse_batch
from tests.batches import BAD_LINES, GOOD


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_batch_and_an_import_say_the_same_of_a_bad_line(line: bytes) -> None:
    imported: list[Line] = []
    with pytest.raises(InvalidBatch) as batch:
        parse_batch(GOOD + b"\n" + line, 1000)

    with pytest.raises(InvalidRequest) as put:
        put_in(io.BytesIO(GOOD + b"\n" + line), imported.append)

    assert BAD_LINES[line] in str(batch.value)
    assert str(batch.value).startswith("line 3: ")
    assert str(put.value) == f"{batch.value}; 1 messages before it were imported"
    assert imported == [Line(b"good")]


def test_a_batch_refuses_what_an_import_passes_over() -> None:
    received = write_line({"id": "a", "lease": "0f", "receive_count": 1}, b"body")
    imported: list[Line] = []

    with pytest.raises(InvalidBatch, match="line 1: unknown member 'lease'"):
        parse_batch(received, 1000)

    assert put_in(io.BytesIO(received), imported.append) == 1
    assert imported == [Line(b"body", MessageId("a"))]


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
