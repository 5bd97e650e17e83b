"""A line a message: `application/x-ndjson`.

`{"id": ..., "body": "text", ...}`; a body that is no UTF-8 stands in base64 as `body_base64`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterable, Mapping

MEDIA_TYPE = "application/x-ndjson"


def line(fields: Mapping[str, object], body: bytes) -> bytes:
    """One message; members of `fields` that are None are left out."""
    return json.dumps(_known(fields) | _body_member(body), ensure_ascii=False).encode() + b"\n"


def lines(messages: Iterable[tuple[Mapping[str, object], bytes]]) -> bytes:
    """Several messages. Blocking, for a worker: about 10 ms for each MiB."""
    return b"".join(line(fields, body) for fields, body in messages)


class LongLine:
    """A line whose body is never whole in memory: always in base64."""

    def __init__(self, fields: Mapping[str, object], body_length: int) -> None:
        known = json.dumps(_known(fields), ensure_ascii=False).encode()
        self._head = known[:-1] + b', "body_base64": "'
        self.length = len(self._head) + 4 * (-(-body_length // 3)) + len(_TAIL)

    async def chunks(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The line, `length` bytes in all, made of the body's chunks."""
        yield self._head
        rest = b""
        async for chunk in body:
            data = rest + chunk
            whole = len(data) - len(data) % 3
            rest = data[whole:]
            yield base64.b64encode(data[:whole])
        yield base64.b64encode(rest) + _TAIL


_TAIL = b'"}\n'


def _known(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _body_member(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
