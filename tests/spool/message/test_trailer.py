"""The trailer of a message: properties behind its body, sealed as the body is."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mq.errors import InvalidRequest, PropertiesTooLarge
from mq.lifecycle import Folder
from mq.properties import MAX_STORED_PROPERTIES_BYTES
from mq.spool.message.held import Held, fails_its_seal, hold, read_content
from mq.spool.message.seal import Seal
from mq.spool.message.trailer import (
    Content,
    pack_trailer,
    read_at_once,
    read_properties,
    split,
    unpack_trailer,
)
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import sealed_with, write_message

PROPERTIES = {"traceparent": "00-4bf9-01", "x-meta-shop": 'north "1"'}

texts = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)).map(str.strip)
names = st.from_regex(r"(ce-|x-meta-)[a-z0-9_.-]+", fullmatch=True)


@settings(deadline=None)
@given(st.dictionaries(names, texts, min_size=1), st.binary())
def test_properties_are_read_as_they_were_written(properties: dict[str, str], body: bytes) -> None:
    seal, data = sealed_with(body, properties)

    assert split(seal, data) == (body, properties)


@settings(deadline=None)
@given(st.dictionaries(names, texts, min_size=1))
def test_a_trailer_is_the_shortest_json_with_its_names_in_order(properties: dict[str, str]) -> None:
    text = json.dumps(properties, separators=(",", ":"), sort_keys=True)

    assert pack_trailer(properties) == f"\n{text}\n".encode()


def test_the_same_properties_have_the_same_bytes_in_any_order() -> None:
    assert pack_trailer(PROPERTIES) == pack_trailer(dict(reversed(PROPERTIES.items())))
    assert pack_trailer({}) == b""


def test_a_file_is_the_body_a_newline_and_one_line_of_json(tmp_path: Path) -> None:
    body = b"two\ncoffees"
    seal, data = sealed_with(body, PROPERTIES)
    path = write_message(tmp_path / "message", data, seal=seal)

    assert data.startswith(body + b"\n{")
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 3
    assert subprocess.check_output(["head", "-c", str(seal.length), path]) == body
    assert json.loads(subprocess.check_output(["tail", "-n", "1", path])) == PROPERTIES
    assert len(os.getxattr(path, "user.mq")) == 48


@pytest.mark.parametrize("name", ["x-meta-a b", "color"])
def test_what_is_no_property_is_never_written(name: str) -> None:
    with pytest.raises(InvalidRequest):
        pack_trailer({name: "1"})


def test_a_file_takes_eight_mebibytes_of_properties_and_no_more() -> None:
    longest = {"ce-id": "x" * (MAX_STORED_PROPERTIES_BYTES - len("ce-id"))}

    assert len(pack_trailer(longest)) > MAX_STORED_PROPERTIES_BYTES
    with pytest.raises(PropertiesTooLarge, match="8388608"):
        pack_trailer({"ce-id": longest["ce-id"] + "x"})


def test_every_bit_of_body_and_trailer_is_under_the_seal(spool: Spool) -> None:
    seal, data = sealed_with(b"body", PROPERTIES)
    damaged = [_flip(data, bit) for bit in range(8 * len(data))]
    damaged += [data[:length] for length in range(len(data))]
    damaged += [data + b"\n", data + b"x", b"x" + data]

    for each in damaged:
        assert split(seal, each) is None, each
        assert _read_at_once(spool, each, seal) is None, each
        assert _is_damaged(spool, each, seal), each
    assert _read_at_once(spool, data, seal) == (b"body", PROPERTIES)
    assert not _is_damaged(spool, data, seal)


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b'"text"', b"{", b'{"ce-id": 1}', b'{"color": "red"}', b"\xff", b"[" * 100_000],
)
def test_a_trailer_that_nobody_wrote_here_fails_though_its_checksum_is_right(
    document: bytes,
) -> None:
    trailer = b"\n" + document + b"\n"
    seal, _ = sealed_with(b"body", trailer=trailer)

    assert unpack_trailer(seal, trailer) is None
    assert split(seal, b"body" + trailer) is None


def test_a_trailer_that_cannot_be_read_is_damage_and_another_error_passes(spool: Spool) -> None:
    seal, data = sealed_with(b"body", PROPERTIES)
    files = WatchedFiles()
    with _hold(spool, data, seal) as held:
        assert read_properties(files, held.fd, seal) == PROPERTIES
        files.fail("read")
        assert read_properties(files, held.fd, seal) == PROPERTIES
        files.fail("read", times=2)
        assert read_properties(files, held.fd, seal) is None
        files.fail("read", times=2)
        assert read_at_once(files, held.fd, len(data), seal) is None
        files.fail("read", code=errno.ESTALE)
        with pytest.raises(OSError, match="Stale"):
            read_properties(files, held.fd, seal)
        files.fail("read", code=errno.ESTALE)
        with pytest.raises(OSError, match="Stale"):
            read_at_once(files, held.fd, len(data), seal)


def test_a_message_without_a_seal_is_all_body(spool: Spool) -> None:
    _, data = sealed_with(b"body", PROPERTIES)
    with _hold(spool, data, None) as held:
        assert read_content(held, spool.files) == (data, {})
        assert read_properties(spool.files, held.fd, None) == {}


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _hold(spool: Spool, data: bytes, seal: Seal | None) -> Held:
    write_message(spool.root / "queues" / "orders" / "1", data, seal=seal)
    held = hold(spool.files, spool.fd(Folder.QUEUES), "orders/1")
    assert isinstance(held, Held)
    return held


def _read_at_once(spool: Spool, data: bytes, seal: Seal) -> Content | None:
    with _hold(spool, data, seal) as held:
        return read_at_once(spool.files, held.fd, 1000, seal)


def _is_damaged(spool: Spool, data: bytes, seal: Seal) -> bool:
    with _hold(spool, data, seal) as held:
        is_damaged = fails_its_seal(held, spool.files)
        assert is_damaged == (read_content(held, spool.files) is None)
    return is_damaged
