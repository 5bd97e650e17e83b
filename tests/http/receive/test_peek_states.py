"""4.5 GET /QUEUE/messages?peek&state=leased, and delayed"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.batches import body_in, lines_of
from tests.support.peeks import ids_behind, peek, tree
from tests.support.processes import Server
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, assert_problem, take

LARGE = os.urandom(600_000)
READER, WRITER = "reader-kT3vVt9xkq3mP2sYw8LrBg", "writer-8wYs2Pm3qkx9tVv3TkgBrL"


def delayed(wire: Wire, queue: str, body: bytes = b"body", **headers: str) -> str:
    answer = wire.request("POST", f"/{queue}/messages?delay=1000", body, **headers)
    assert answer.status == 201
    return answer.headers["x-message-id"]


def ids_in(wire: Wire, queue: str, state: str) -> list[str]:
    answer = peek(wire, queue, f"&max=1000&state={state}")
    return [line["id"] for line in lines_of(answer)] if answer.status == 200 else []


def test_each_state_is_shown_by_itself(wire: Wire, queue: str) -> None:
    leased, ready = wire.publish(queue, b"leased", content_type="text/x"), wire.publish(queue)
    later = delayed(wire, queue, LARGE, content_type="text/y")
    taken = wire.receive(queue)

    [line] = lines_of(peek(wire, queue, "&max=10&state=leased"))
    assert (line["id"], line["state"], line["body"]) == (leased, "leased", "leased")
    assert line["visible_at"] == taken.headers["x-visible-at"]
    assert (line["content_type"], line["receive_count"]) == ("text/x", 1)
    assert taken.headers["etag"].strip('"') not in str(line)
    [line] = lines_of(peek(wire, queue, "&max=10&state=delayed"))
    assert (line["id"], line["state"], body_in(line)) == (later, "delayed", LARGE)
    assert line["visible_at"] > line["published_at"]
    [line] = lines_of(peek(wire, queue, "&max=10&state=ready"))
    assert (line["id"], line["state"]) == (ready, "ready")
    assert "visible_at" not in line


@pytest.mark.parametrize("state", ["leased", "delayed"])
def test_without_max_the_oldest_is_shown_with_its_headers(
    wire: Wire, queue: str, state: str
) -> None:
    ids = [delayed(wire, queue, b"one"), delayed(wire, queue, b"two")]
    if state == "leased":
        for message_id in reversed(ids):
            take(wire, queue, message_id, "&visibility=500")

    first = peek(wire, queue, f"&state={state}")
    second = peek(wire, queue, f"&state={state}&after={ids[0]}")

    assert [first.headers["x-message-id"], second.headers["x-message-id"]] == ids
    assert (first.body, second.body) == (b"one", b"two")
    assert first.headers["x-state"] == state
    assert first.headers["x-visible-at"] > first.headers["x-published-at"]
    assert "etag" not in first.headers
    assert peek(wire, queue, f"&state={state}&after={ids[1]}").status == 204


def test_a_message_is_seen_in_its_new_state_at_once(wire: Wire, queue: str) -> None:
    """Whatever was looked at before."""
    message_id = delayed(wire, queue)
    for _ in range(2):
        assert (ids_in(wire, queue, "leased"), ids_in(wire, queue, "delayed")) == ([], [message_id])
        lease = take(wire, queue, message_id, "&visibility=500").headers["etag"]
        assert (ids_in(wire, queue, "leased"), ids_in(wire, queue, "delayed")) == ([message_id], [])
        take(wire, queue, message_id, "&visibility=700", if_match=lease)
        assert ids_in(wire, queue, "leased") == [message_id]
        assert take(wire, queue, message_id, "&visibility=0").status == 204
        assert (ids_in(wire, queue, "leased"), ids_in(wire, queue, "ready")) == ([], [message_id])
        wire.remove(queue, message_id)
        assert ids_in(wire, queue, "ready") == ids_in(wire, queue, "leased") == []
        message_id = delayed(wire, queue)


def test_pages_go_on_behind_a_message_whatever_became_of_it(wire: Wire, queue: str) -> None:
    ids = [
        delayed(wire, queue, b"", x_message_id=own) if own else delayed(wire, queue, b"")
        for own in ("z", "", "a", "", "m")
    ]

    def behind(after: str, most: int = 10) -> list[str]:
        return ids_behind(wire, queue, f"{after}&state=delayed", most)

    assert ids_in(wire, queue, "delayed") == ids
    for place, message_id in enumerate(ids):
        assert behind(message_id) == ids[place + 1 :]
        assert behind(message_id, 2) == ids[place + 1 : place + 3]
    take(wire, queue, ids[0], "&visibility=0")
    take(wire, queue, ids[1], "&visibility=500")
    wire.remove(queue, ids[2])
    assert [behind(each) for each in ids[:3]] == [ids[3:]] * 3
    assert ids_in(wire, queue, "leased") == [ids[1]]
    assert_problem(
        peek(wire, queue, "&state=delayed&after=unheard-of"), 404, "message-not-found", "unheard-of"
    )


def test_looking_changes_nothing_on_disk(server: Server, wire: Wire, queue: str) -> None:
    for body in (b"one", LARGE):
        wire.publish(queue, body)
        delayed(wire, queue, body)
    wire.receive(queue)
    ids_in(wire, queue, "leased")
    before = tree(server.root)

    for state in ("ready", "leased", "delayed"):
        peek(wire, queue, f"&max=10&state={state}")
        peek(wire, queue, f"&state={state}")

    assert tree(server.root) == before


@pytest.mark.parametrize("size", [10, 600_000])
def test_damage_is_shown(server: Server, wire: Wire, queue: str, size: int) -> None:
    message_id = delayed(wire, queue, b"b" * size)
    path = server.root / "delay" / f"{queue}:{message_id}"
    times = path.stat()
    path.write_bytes(b"x" * size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert peek(wire, queue, "&state=delayed").headers["x-damaged"] == "yes"
    [line] = lines_of(peek(wire, queue, "&state=delayed&max=2"))
    assert line["damaged"] is True


def test_what_others_put_there_is_seen_or_passed_over(
    server: Server, wire: Wire, queue: str
) -> None:
    ids = [wire.publish(queue, b"body", x_message_id=f"own-{number}") for number in range(3)]
    assert ids_in(wire, queue, "delayed") == []
    delay = server.root / "delay"

    for message_id in ids[:2]:
        source = server.root / "queues" / queue / message_id
        os.utime(source, ns=(0, source.stat().st_ctime_ns + 10**13))
        source.rename(delay / f"{queue}:{message_id}")
    (delay / f"{queue}:folder").mkdir()
    (delay / f"{queue}:link").symlink_to(delay / f"{queue}:{ids[0]}")
    (delay / f"{queue}:bad_name").touch()
    (delay / f"{queue}x:other").touch()

    assert ids_in(wire, queue, "delayed") == ids[:2]
    assert ids_in(wire, queue, "leased") == []
    (delay / f"{queue}:{ids[0]}").unlink()
    assert ids_in(wire, queue, "delayed") == ids[1:2]


def test_nothing_of_another_queue_is_shown(wire: Wire, queue: str) -> None:
    wire.request("PUT", f"/{queue}.b")
    mine, other = delayed(wire, queue), delayed(wire, f"{queue}.b")

    assert ids_in(wire, queue, "delayed") == [mine]
    assert ids_in(wire, f"{queue}.b", "delayed") == [other]
    assert wire.request("DELETE", f"/{queue}?purge").status == 200
    assert peek(wire, queue, "&state=delayed").status == 204
    assert wire.request("DELETE", f"/{queue}.b").status == 200
    assert_problem(peek(wire, f"{queue}.b", "&state=delayed"), 404, "queue-not-found")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("peek&state=", "ready, leased, delayed"),
        ("peek&state=removed", "ready, leased, delayed"),
        ("peek&state=READY", "ready, leased, delayed"),
        ("peek&state=leased,delayed", "ready, leased, delayed"),
        ("peek&state=ready&state=leased", "twice"),
        ("peek&state=ready&id=1", "'state'"),
        ("state=ready", "goes with 'peek'"),
        ("id=1&state=leased", "goes with 'peek'"),
        ("peek&state=leased&max=0", "max"),
        ("peek&state=leased&wait=1", "wait"),
    ],
)
def test_a_wrong_parameter_is_400_and_changes_nothing(
    wire: Wire, queue: str, query: str, named: str
) -> None:
    wire.publish(queue)

    assert_problem(wire.request("GET", f"/{queue}/messages?{query}"), 400, "invalid-request", named)
    assert wire.count(queue) == (1, 0)


def test_a_reader_may_look_at_every_state(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = make_token_file(
        tmp_path, f"reader read orders {READER}", f"writer write orders {WRITER}"
    )
    server = start_server(f"--token-file={tokens}")
    (server.root / "queues" / "orders").mkdir()
    wire = Wire(server.port)
    for state in ("ready", "leased", "delayed"):
        target = f"/orders/messages?peek&state={state}"
        assert wire.request("GET", target, authorization=f"Bearer {READER}").status == 204
        answer = wire.request("GET", target, authorization=f"Bearer {WRITER}")
        assert_problem(answer, 403, "forbidden", "read")
        assert_problem(wire.request("GET", target), 401, "unauthorized")
    wire.close()
