"""The roots that are kept of each format, as `roots/FORMAT.tar.gz`, and what is in each, as
`roots/FORMAT.json`: of each message its queue, body and state, and what its producer gave along.

They were made by the version that first wrote the format, `mq 1` by the one of commit 35788ba, and
stopped with a message stranded in `new`. A new format gets a root of its own; the old ones stay as
they are.
"""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOTS = Path(__file__).with_name("roots")
FORMATS = sorted(path.name.removesuffix(".tar.gz") for path in ROOTS.glob("*.tar.gz"))

_XATTR = "SCHILY.xattr."


@dataclass(frozen=True)
class KeptMessage:
    """`state` is `ready`, `leased`, `delayed` or `removed`."""

    message_id: str
    queue: str
    body: bytes
    state: str
    type: str | None
    count: int
    etag: str | None
    properties: dict[str, str]


def messages_of(name: str) -> list[KeptMessage]:
    said = json.loads((ROOTS / f"{name}.json").read_text())
    return [
        KeptMessage(
            message_id,
            each["queue"],
            each["body"].encode("latin-1"),
            each["state"],
            each.get("type"),
            each.get("count", 0),
            each.get("etag"),
            each.get("properties", {}),
        )
        for message_id, each in said.items()
    ]


def unpack(name: str, root: Path) -> None:
    """Lay the root out, with attributes and times."""
    root.mkdir(mode=0o700)
    with tarfile.open(ROOTS / f"{name}.tar.gz") as archive:
        for member in archive:
            path = root / member.name
            if member.isdir():
                path.mkdir(mode=0o700, exist_ok=True)
                continue
            file = archive.extractfile(member)
            assert file is not None
            path.write_bytes(file.read())
            for header, value in member.pax_headers.items():
                if header.startswith(_XATTR):
                    text = value.encode("utf-8", "surrogateescape")
                    os.setxattr(path, header.removeprefix(_XATTR), text)
            os.utime(path, (member.mtime, member.mtime))
