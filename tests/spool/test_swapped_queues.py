"""Another user who may write into the tree exchanges the folder of a queue with a link, again and
again, while everybody works on it: nothing outside the root is read, planted or deleted."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from mq.ctl.ways.access import ShownMessage
from mq.ctl.ways.by_root import RootAccess
from mq.errors import MessageNotFound, QueueNotFound, StoreUnavailable
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName
from tests.support.messages import write_message
from tests.support.processes import Process, Server, start_mover, wait_until
from tests.support.users import BECOME_NOBODY, NOBODY, needs_root
from tests.support.wire import Wire

pytestmark = needs_root

SECRET = b"what only the server may read"
VICTIM = "00000000-victim"
"""A name that sorts before all ids of MQ."""

EXCHANGES = 2000
"""As many of them as pass before a test ends."""

_ATTACK = """
import ctypes, os, sys
queue, link, progress = map(os.fsencode, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
progress = open(progress, "wb", buffering=0)
{become}
while True:
    if libc.renameat2(-100, queue, -100, link, 2):
        sys.exit(os.strerror(ctypes.get_errno()))
    progress.write(b".")
"""


class Attack:
    """A process of another user that exchanges a queue's folder with a link in a loop."""

    def __init__(self, queue: Path, target: Path, folder: Path) -> None:
        self._progress = folder / "progress"
        self._progress.touch()
        link = queue.parent / ".link"
        link.symlink_to(target)
        os.lchown(link, NOBODY, NOBODY)
        code = _ATTACK.format(become=BECOME_NOBODY)
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", code, queue, link, self._progress], stderr=subprocess.PIPE
        )

    def exchanges(self) -> int:
        assert self._process.poll() is None, self._process.communicate()[1]
        return self._progress.stat().st_size

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def victim(public_folder: Path) -> Path:
    """A folder of the server's own user, with what looks like messages in it."""
    folder = public_folder / "victim"
    folder.mkdir()
    for number in range(3):
        write_message(folder / f"{VICTIM}{number}", SECRET)
    return folder


@pytest.fixture
def server(public_folder: Path, start_server: Callable[..., Server]) -> Server:
    """Everybody may write into its root."""
    return start_server("--mode=777", "--visibility=0.05", root=public_folder / "root")


@pytest.fixture
def attack(
    server: Server, connect: Callable[[Server], Wire], victim: Path, public_folder: Path
) -> Iterator[Attack]:
    connect(server).request("PUT", "/orders")
    (server.root / "queues").chmod(0o777)
    attack = Attack(server.root / "queues" / "orders", victim, public_folder)
    wait_until(attack.exchanges)
    yield attack
    attack.stop()


def contents(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return the content of each file, with its mode and the time of its last write."""
    found = {}
    for path in folder.iterdir():
        status = path.stat()
        found[path.name] = (path.read_bytes(), status.st_mode, status.st_mtime_ns)
    return found


def test_server_stays_in_its_root(
    server: Server, attack: Attack, victim: Path, connect: Callable[[Server], Wire]
) -> None:
    before = contents(victim)
    wire, choose = connect(server), random.Random(1)
    lines = b'{"body": "of a batch"}\n'
    first = attack.exchanges()
    published: list[str] = []

    for number in count():
        if number > 300 and attack.exchanges() > first + EXCHANGES and published:
            break
        message_id = choose.choice((f"{VICTIM}{number % 3}", *published[-3:]))
        answers = [
            wire.request("POST", "/orders/messages", b"body"),
            wire.request(
                "POST", "/orders/messages?batch", lines, content_type="application/x-ndjson"
            ),
            wire.request("GET", "/orders/messages"),
            wire.request("GET", "/orders/messages?max=3"),
            wire.request("GET", f"/orders/messages?peek&id={message_id}"),
            wire.request("GET", "/orders/messages?peek&max=3"),
            wire.request("GET", f"/orders/messages?id={message_id}"),
            wire.request("DELETE", f"/orders/messages/{message_id}"),
        ]
        for answer in answers:
            assert SECRET not in answer.body
            assert answer.status in (200, 201, 202, 204, 404, 503), answer
        if answers[0].status == 201:
            published.append(answers[0].headers["x-message-id"])

    assert contents(victim) == before


def test_mover_stays_in_its_root(
    server: Server, attack: Attack, victim: Path, processes: list[Process]
) -> None:
    before = contents(victim)
    delay = server.root / "delay"
    processes.append(start_mover(server.root))
    first, numbers = attack.exchanges(), count()

    def are_enough_moved() -> bool:
        """Write one more: the mover comes back to those that it could not move after 30 s only."""
        number = next(numbers)
        write_message(delay / f"orders:moved-{number}", b"body")
        moved = number + 1 - len(os.listdir(delay))
        return moved >= 100 and attack.exchanges() >= first + EXCHANGES

    wait_until(are_enough_moved, 60)

    assert contents(victim) == before


def test_mqctl_on_the_root_stays_in_it(server: Server, attack: Attack, victim: Path) -> None:
    before = contents(victim)
    access, queue = RootAccess(server.root), QueueName("orders")
    victims = [MessageId(path.name) for path in victim.iterdir()]
    first = attack.exchanges()
    bodies: list[bytes] = []

    def look(messages: Iterable[ShownMessage | None]) -> None:
        for message in messages:
            if message is not None:
                bodies.append(message.body.read())
                message.body.close()

    calls: list[Callable[[], object]] = [
        lambda: access.publish(queue, io.BytesIO(b"body"), Line(b"body")),
        lambda: look([access.receive(queue, 0.05)]),
        lambda: look(access.peek(queue, 5)),
        lambda: look([access.peek_at(queue, victims[0])]),
        lambda: access.remove(queue, victims[1], None),
        access.list_queues,
    ]

    for number in count():
        # On a busy machine many rounds may find the link each time.
        if number > 300 and attack.exchanges() > first + EXCHANGES and b"body" in bodies:
            break
        for call in calls:
            with suppress(QueueNotFound, MessageNotFound, StoreUnavailable):
                call()
    access.close()

    assert SECRET not in bodies
    assert contents(victim) == before
