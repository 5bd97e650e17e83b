"""A batch under `kill -9` before each of its file calls: all of it is there, or nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from mq.commit.barrier import Barrier
from mq.commit.blocking import BlockingCommitter
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId
from mq.spool.queue.queues import begin_deletion, finish_deletion, make_queue
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq.store.publishing.batch import publish_batch
from mq.store.publishing.publish import Entry
from mq.store.shared_state import Workspace
from tests.support.faults import CHANGES, SYNCS, CountedFiles
from tests.support.fsck import Fsck
from tests.support.messages import names_in
from tests.support.processes import Process, Server, wait_until
from tests.support.stores import ORDERS, batch_of, draft_of

ANSWERED, DIED = 0, 9
LINES = 6
"""More than are synced one by one, and one of them is delayed."""


def _open(root: Path) -> Spool:
    return open_root(root, 0o700, Files())[0]


def _entries(own: bool = False) -> list[Entry]:
    return batch_of(
        *(
            draft_of(b"%d" % n, MessageId(f"own-{n}") if own else None, 1000 if n == 3 else 0)
            for n in range(LINES)
        )
    )


def _publish_and_die(
    root: Path, entries: list[Entry], calls: int, meanwhile: Callable[[], object] = lambda: None
) -> int:
    """In a process of its own, as a server does it; returns how that ended."""

    def die() -> None:
        meanwhile()
        os._exit(DIED)

    pid = os.fork()
    if pid == 0:
        try:
            work = Workspace(_open(root), ServerConfig(root=root), lambda: None)
            files = work.files = work.spool.files = CountedFiles(CHANGES | SYNCS, die)
            files.calls_left = calls
            barrier = Barrier(work.spool)
            committer = BlockingCommitter(barrier, work.begin_round, work.end_calls)
            committer.run(publish_batch(work, ORDERS, entries))
            os._exit(ANSWERED)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _bodies(root: Path) -> list[bytes]:
    paths = [*root.glob("queues/orders/*"), *root.glob("delay/orders:*")]
    return sorted(path.read_bytes() for path in paths)


WHOLE = [b"%d" % n for n in range(LINES)]


@pytest.mark.parametrize("own", [False, True], ids=["new ids", "own ids"])
def test_a_kill_at_any_call_leaves_all_or_nothing(tmp_path: Path, own: bool) -> None:
    ends: list[int] = []
    found: list[int] = []
    while ANSWERED not in ends:
        root = tmp_path / str(len(ends))
        with closing(_open(root)) as spool:
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)

            ends.append(_publish_and_die(root, _entries(own), calls=len(ends)))
            Sweeper(spool, lambda *_: None).sweep()

            bodies = _bodies(root)
            assert bodies in ([], WHOLE)
            assert names_in(root / "delay") == [] or len(names_in(root / "delay")) == 1
            assert os.listdir(root / "new") == []
            assert Fsck(spool).report() == []
            found.append(len(bodies))
    assert set(ends) == {DIED, ANSWERED}
    # Up to the seal nothing, from then on everything.
    assert found == sorted(found)
    assert set(found) == {0, LINES}


def test_a_batch_with_own_ids_sent_again_after_any_kill_is_there_once(tmp_path: Path) -> None:
    """There is no sweep in between: the retry itself finds what the killed try left."""
    ends: list[int] = []
    while ANSWERED not in ends:
        root = tmp_path / str(len(ends))
        with closing(_open(root)) as spool:
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)
            ends.append(_publish_and_die(root, _entries(own=True), calls=len(ends)))

            assert _publish_and_die(root, _entries(own=True), calls=-1) == ANSWERED
            Sweeper(spool, lambda *_: None).sweep()

        assert _bodies(root) == WHOLE


def test_a_queue_made_again_never_sees_a_batch_of_the_old_one(tmp_path: Path) -> None:
    """The publisher dies before each call, and before that another process deletes the queue."""
    calls = 0
    while True:
        root = tmp_path / str(calls)
        with closing(_open(root)) as spool:
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)

            def delete(spool: Spool = spool) -> None:
                begin_deletion(spool, ORDERS)

            end = _publish_and_die(root, _entries(), calls, delete)
            finish_deletion(spool, ORDERS)
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)
            Sweeper(spool, lambda *_: None).sweep()
        if end == ANSWERED:
            break
        assert _bodies(root) == []
        calls += 1
    assert calls > 3 * LINES


def _send(port: int) -> int | None:
    """The status of the answer; None if the server was killed."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    lines = b"".join(json.dumps({"body": f"{n}"}).encode() + b"\n" for n in range(LINES))
    try:
        connection.request(
            "POST", "/orders/messages?batch", lines, {"Content-Type": "application/x-ndjson"}
        )
        return connection.getresponse().status
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _die_at(
    root: Path, call: int, start_server: Callable[..., Server], processes: list[Process]
) -> int | None:
    """A server on a new root that is killed at that call of a batch, and another after it; what
    the client was answered. What is there then is all of it or nothing."""
    dying = Server(
        root, log=root.with_suffix(".log"), module="tests.crash.dying_server", DIE_AT=str(call)
    )
    processes.append(dying)
    (root / "queues" / "orders").mkdir()
    status = _send(dying.port)
    if status is None:
        assert dying.popen.wait(10) == -signal.SIGKILL
    start_server(root=root)
    wait_until(lambda: os.listdir(root / "new") == [])
    bodies = _bodies(root)
    assert bodies in ([], WHOLE)
    assert status is None or bodies == WHOLE
    return status


@pytest.mark.parametrize("call", [1, 12, 19, 20, 21, 24])
def test_a_server_killed_within_a_batch_leaves_all_or_nothing(
    disk: Path, start_server: Callable[..., Server], processes: list[Process], call: int
) -> None:
    assert _die_at(disk, call, start_server, processes) is None


@pytest.mark.crash_long
def test_a_server_killed_at_every_call_of_a_batch_leaves_all_or_nothing(
    disk: Path, start_server: Callable[..., Server], processes: list[Process]
) -> None:
    call, status = 0, None
    while status is None:
        root = disk.with_name(f"root-{call}")
        status = _die_at(root, call, start_server, processes)
        for process in processes:
            if process.popen.poll() is None:
                process.kill()
        call += 1
    assert status == 201
    assert call > 3 * LINES
