"""`mqctl export` and `import`, over HTTP and on the folders, and `vsqs` at the other end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mq.config import MAX_ANSWER_MESSAGES
from mq.errors import ExitCode
from mq.properties import MAX_STORED_PROPERTIES_BYTES
from tests.support.mqctl import Ctl, assert_refused, without_ours
from tests.support.processes import Server, wait_until
from tests.support.vsqs import run_command
from tests.support.wire import Wire, make_queue

BODIES = [b"two coffees", "caf\u00e9 \u2615".encode(), b"\xff\x00", b""]


@pytest.fixture
def other(wire: Wire) -> str:
    """One more queue on the file's server."""
    return make_queue(wire)


def send_all(ctl: Ctl, queue: str) -> list[str]:
    return [ctl.ok("send", queue, stdin=body).out.decode().strip() for body in BODIES]


def count(ctl: Ctl, queue: str) -> tuple[int, int]:
    document = ctl.ok("info", queue, "--json").json()
    return document["ready"], document["leased"]


def test_export_copies_the_ready_messages_and_changes_nothing(ctl: Ctl, queue: str) -> None:
    ids = send_all(ctl, queue)
    last = ctl.ok("send", queue, "last", "--content-type", "text/plain").out.decode().strip()
    assert ctl.ok("recv", queue).out == BODIES[0]

    delayed = ctl.ok("send", queue, "later", "--delay=600").out.decode().strip()

    done = ctl.ok("export", queue)

    lines = done.lines()
    assert done.err == "exported 4 messages; left out 1 leased and 1 delayed\n"
    assert delayed not in done.out.decode()
    assert lines == [
        {"id": ids[1], "body": BODIES[1].decode()},
        {"id": ids[2], "body_base64": "/wA="},
        {"id": ids[3], "body": ""},
        {"id": last, "body": "last", "content_type": "text/plain"},
    ]
    assert ctl.ok("export", queue, "-n", "2").lines() == lines[:2]
    assert count(ctl, queue) == (4, 1)


def test_a_copy_of_more_than_one_answer_holds_is_whole(ctl: Ctl, queue: str) -> None:
    ids = [f"id-{number}" for number in range(MAX_ANSWER_MESSAGES + 5)]
    lines = [json.dumps({"id": each, "body": each}).encode() + b"\n" for each in ids]
    for some in (lines[:7], lines[7:]):
        ctl.ok("send", queue, "--batch", stdin=b"".join(some))

    assert [line["id"] for line in ctl.ok("export", queue).lines()] == ids
    assert len(ctl.ok("peek", queue, "-n", "2000").out.splitlines()) == len(ids)
    assert len(ctl.ok("export", queue, "-n", "1001").lines()) == 1001


def test_an_export_that_fails_says_how_many_it_wrote(ctl: Ctl, queue: str, server: Server) -> None:
    for each in ("a", "b", "c"):
        ctl.ok("send", queue, "body", "--id", each)
    (server.root / "queues" / queue / "b").write_bytes(b"beds")

    done = ctl("export", queue)

    assert [line["id"] for line in done.lines()] == ["a", "c"]
    assert done.code == ExitCode.UNAVAILABLE
    assert done.err.splitlines()[0] == "exported 2 messages"
    assert "mqctl: 1 message left out, damaged; the first is b" in done.err
    assert "mqctl --root ROOT fsck --repair" in done.err
    assert "or a message is damaged)" in done.err


def test_export_of_an_empty_queue_is_empty(ctl: Ctl, queue: str) -> None:
    assert ctl.ok("export", queue) == (0, b"", "exported 0 messages\n")
    assert ctl.ok("export", queue, "--remove") == (0, b"", "exported 0 messages\n")
    assert_refused(ctl("export", "absent"), ExitCode.NOT_FOUND, "absent")


def test_remove_moves_the_messages_out(ctl: Ctl, queue: str) -> None:
    ids = send_all(ctl, queue)

    first = ctl.ok("export", queue, "--remove", "-n", "1").lines()
    rest = ctl.ok("export", queue, "--remove").lines()

    assert [line["id"] for line in first + rest] == ids
    assert count(ctl, queue) == (0, 0)


def test_import_brings_back_what_export_wrote_and_is_idempotent(
    ctl: Ctl, queue: str, other: str
) -> None:
    send_all(ctl, queue)
    ctl.ok("send", queue, "last", "--content-type", "text/plain")
    exported = ctl.ok("export", queue).out

    for _ in range(2):
        assert ctl.ok("import", other, stdin=exported).out == b"imported 5 messages\n"

    assert ctl.ok("export", other).out == exported


def test_import_takes_what_recv_wrote_and_a_file(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    ctl.ok("send", queue, "body")
    document = ctl.ok("recv", queue, "--json").out
    ctl.ok("ack", queue, json.loads(document)["id"])
    (tmp_path / "lines").write_bytes(b"\n" + json.dumps({"body": "new"}).encode() + b"\n\n")

    done = ctl.ok("import", queue, str(tmp_path / "lines"), "--json")

    assert done.json() == {"queue": queue, "imported": 1}
    assert [line["body"] for line in ctl.ok("export", queue).lines()] == ["new"]


def test_a_delayed_line_is_hidden(ctl: Ctl, queue: str) -> None:
    ctl.ok("import", queue, stdin=b'{"body": "later", "delay": 3600}')

    assert ctl.ok("info", queue, "--json").json()["delayed"] == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no json", "it is not JSON"),
        (b'{"body": "a", "id": "a/b"}', "message id"),
    ],
)
def test_a_wrong_line_is_named_and_those_before_it_are_there(
    by_root: Ctl, queue: str, line: bytes, why: str
) -> None:
    done = by_root("import", queue, stdin=b'{"body": "good"}\n' + line + b"\n")

    assert_refused(done, ExitCode.REFUSED, "line 2: ")
    assert why in done.err
    assert "1 message published before it" in done.err
    assert count(by_root, queue) == (1, 0)


def test_another_body_under_an_id_is_refused(ctl: Ctl, queue: str) -> None:
    ctl.ok("import", queue, stdin=b'{"id": "a-1", "body": "one"}')

    done = ctl("import", queue, stdin=b'{"id": "a-1", "body": "another"}')

    assert_refused(done, ExitCode.REFUSED, "line 1: ")


@pytest.mark.parametrize("refused", [b'{"id": "a-1", "body": "another"}', b"{}"])
def test_a_line_that_is_refused_among_many_ends_it_there(
    ctl: Ctl, queue: str, refused: bytes
) -> None:
    """By what is there already, or by what it is."""
    good = [b'{"body": "%d"}' % number for number in range(7)]
    ctl.ok("import", queue, stdin=b'{"id": "a-1", "body": "one"}')

    done = ctl("import", queue, stdin=b"\n".join([*good[:4], refused, *good[4:]]))

    assert_refused(done, ExitCode.REFUSED, "line 5: ")
    assert "4 messages published before it" in done.err
    bodies = [line["body"] for line in ctl.ok("export", queue).lines()]
    assert bodies == ["one", "0", "1", "2", "3"]


def test_a_line_with_too_many_bytes_of_properties_is_named(ctl: Ctl, queue: str) -> None:
    """They are more than any message may have, however it is published."""
    properties = {"x-meta-long": "x" * (MAX_STORED_PROPERTIES_BYTES + 1)}
    lines = [{"body": "good"}, {"body": "bad", "properties": properties}, {"body": "not sent"}]

    done = ctl("import", queue, stdin="\n".join(map(json.dumps, lines)).encode())

    assert_refused(done, ExitCode.REFUSED, "line 2: ")
    assert "1 message published before it" in done.err
    assert [line["body"] for line in ctl.ok("export", queue).lines()] == ["good"]


def test_an_import_that_is_interrupted_says_how_many_are_published(ctl: Ctl, queue: str) -> None:
    importer = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "import", queue, *ctl.way],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    assert importer.stdin is not None
    importer.stdin.write(b'{"body": "a"}\n{"body": "b"}\n{"body":')
    importer.stdin.flush()
    wait_until(lambda: count(ctl, queue) == (2, 0), 100)

    importer.send_signal(signal.SIGINT)

    assert importer.communicate(timeout=30)[0] == b"imported 2 messages\n"
    assert importer.returncode == 128 + signal.SIGINT


def test_a_queue_that_does_not_exist_is_not_made(ctl: Ctl) -> None:
    assert_refused(ctl("import", "absent", stdin=b'{"body": "a"}'), ExitCode.NOT_FOUND, "absent")


def test_a_broken_pipe_loses_nothing(server: Server, queue: str, tmp_path: Path) -> None:
    """The reader goes away after some lines: what it did not get stays."""
    by_root = Ctl("--root", str(server.root))
    sent = [f"message {number} {'x' * 500}" for number in range(300)]
    by_root.ok("import", queue, stdin="\n".join(json.dumps({"body": b}) for b in sent).encode())
    exporter = subprocess.Popen(
        [sys.executable, "-m", "mq.ctl", "export", queue, "--remove", "--root", str(server.root)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=without_ours(),
    )  # fmt: skip
    assert exporter.stdout is not None
    got = [json.loads(exporter.stdout.readline())["body"] for _ in range(30)]
    exporter.stdout.close()
    assert exporter.wait(60) != 0

    ready, leased = count(by_root, queue)
    assert ready + leased >= len(sent) - 200
    assert got == sent[:30]


def test_a_kill_loses_nothing(server: Server, queue: str, tmp_path: Path) -> None:
    """Every message is in the file, or in the queue still."""
    by_root = Ctl("--root", str(server.root))
    ids = {f"id-{number}" for number in range(1000)}
    lines = "\n".join(json.dumps({"id": each, "body": "x" * 50}) for each in ids)
    by_root.ok("import", queue, stdin=lines.encode())
    path = tmp_path / "lines"
    with path.open("wb") as output:
        exporter = subprocess.Popen(
            [sys.executable, "-m", "mq.ctl", "export", queue, "--remove",
             "--root", str(server.root)], stdout=output, env=without_ours(),
        )  # fmt: skip
    wait_until(lambda: path.stat().st_size > 0, 100)
    exporter.kill()
    exporter.wait(10)

    exported = {
        json.loads(line)["id"] for line in path.read_bytes().splitlines() if line.endswith(b"}")
    }
    left = {path.name for path in (server.root / "queues" / queue).iterdir()}
    left |= {
        path.name.partition(":")[2]
        for path in (server.root / "delay").iterdir()
        if path.name.startswith(f"{queue}:")
    }
    assert exported | left == ids


def test_messages_go_to_vsqs_and_back(ctl: Ctl, queue: str, other: str, tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    send_all(ctl, queue)

    out = ctl.ok("export", queue, "--remove").out
    there = run_command("vsqs", "import", folder, stdin=out)
    assert there == (0, b"imported 4 messages\n", "")
    copied = run_command("vsqs", "export", folder, "-n", "3").out
    assert len(copied.splitlines()) == 3
    back = run_command("vsqs", "export", folder, "--remove").out
    ctl.ok("import", other, stdin=copied)
    ctl.ok("import", other, stdin=back)

    assert back.startswith(copied)
    assert run_command("vsqs", "size", folder).out == b"0\n"
    received = [ctl.ok("recv", other).out for _ in BODIES]
    assert received == BODIES
    assert ctl("recv", other).code == ExitCode.EMPTY


def test_vsqs_refuses_a_delay(tmp_path: Path) -> None:
    done = run_command("vsqs", "import", tmp_path / "q", stdin=b'{"body": "a", "delay": 5}')

    assert done.code == ExitCode.REFUSED
    assert "line 1: it has a delay" in done.err
