"""PostgreSQL: a table as a queue, with SKIP LOCKED, each statement a transaction that is synced."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import Target, free_port, running

from mq.ctl.bench.generator import Script

NAME = "PostgreSQL"
DURABILITY = "table with SKIP LOCKED; all three synced (synchronous_commit on)"

_TABLE = """
CREATE TABLE IF NOT EXISTS message
    (id bigserial PRIMARY KEY, due timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL);
CREATE INDEX IF NOT EXISTS message_due ON message (due, id);
"""
_STATEMENTS = {
    b"publish": b"INSERT INTO message (body) VALUES ($1)",
    b"receive": b"UPDATE message SET due = now() + interval '1 hour' WHERE id = (SELECT id FROM"
    b" message WHERE due <= now() ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
    b"remove": b"DELETE FROM message WHERE id = $1",
}
_USER = "bench"


def find() -> str | None:
    installed = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    return shutil.which("postgres") or (installed[-1] if installed else None)


@contextmanager
def running_server(program: str, folder: Path) -> Iterator[Target]:
    port, data = free_port(), folder / "data"
    owner = None
    if os.geteuid() == 0:
        # It refuses to be root's.
        owner = "postgres"
        shutil.chown(folder, owner)
    initdb = Path(program).resolve().with_name("initdb")
    subprocess.run(
        [str(initdb), "-D", str(data), "-U", _USER, "-A", "trust", "--no-sync", "--locale=C"],
        check=True, stdout=subprocess.DEVNULL, user=owner, cwd=folder,
    )  # fmt: skip
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "",
                "max_connections": 300, "fsync": "on", "synchronous_commit": "on"}  # fmt: skip
    words = [program, "-D", str(data), *(f"--{key}={settings[key]}" for key in settings)]
    ready = "ready to accept connections"
    with running(words, folder, port, ready=ready, user=owner, how=signal.SIGINT) as server:
        yield Target(NAME, [("127.0.0.1", port)], Postgres(), [server.pid])


class Postgres:
    """https://www.postgresql.org/docs/current/protocol-message-formats.html (version 3.0)"""

    def read(self, buffer: bytes) -> int:
        # ReadyForQuery ends every answer; no value here looks like it.
        return len(buffer) if buffer[-6:-1] == b"Z\0\0\0\5" else 0

    def opening(self) -> Script:
        words = f"user\0{_USER}\0database\0postgres\0\0".encode()
        yield struct.pack("!ii", len(words) + 8, 196608) + words
        # Two connections that make the table at once get in each other's way: one after the other.
        lock = b"SELECT pg_advisory_xact_lock(1);"
        no_error((yield message(b"Q", lock + _TABLE.encode() + b"\0")))
        for name, text in _STATEMENTS.items():
            no_error((yield message(b"P", b"%b\0%b\0\0\0" % (name, text)) + _SYNC))

    def publish(self, body: bytes) -> bytes:
        return execute(b"publish", body)

    def receive(self) -> bytes:
        return execute(b"receive")

    def remove(self, message_id: bytes) -> bytes:
        return execute(b"remove", message_id)

    def check(self, answer: bytes) -> None:
        if b"INSERT 0 1\0" not in answer and b"DELETE 1\0" not in answer:
            raise RuntimeError(repr(answer))

    def message_id(self, answer: bytes) -> bytes | None:
        no_error(answer)
        row = answer.find(b"D\0\0\0")
        if b"UPDATE 1\0" not in answer or row < 0:
            return None
        # One column: a length of four bytes and the text.
        [length] = struct.unpack_from("!i", answer, row + 7)
        return answer[row + 11 : row + 11 + length]


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


_SYNC = message(b"S", b"")


def execute(statement: bytes, *values: bytes) -> bytes:
    parameters = b"".join(struct.pack("!i", len(value)) + value for value in values)
    bound = b"\0%b\0\0\0%b%b\0\0" % (statement, struct.pack("!h", len(values)), parameters)
    return message(b"B", bound) + message(b"E", b"\0\0\0\0\0") + _SYNC


def no_error(answer: bytes) -> None:
    if answer.startswith(b"E"):
        raise RuntimeError(repr(answer))
