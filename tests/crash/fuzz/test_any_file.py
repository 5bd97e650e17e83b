"""Any file in any folder, under any name and with any content, leaves every process running and
every other message served."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from mq.fsck.check import Check, mend
from mq.spool.network_files import files_for
from tests.crash.fuzz.planting import Planter
from tests.support.lone_root import make_root
from tests.support.mqctl import Ctl
from tests.support.processes import Server, wait_until
from tests.support.users import needs_root

pytestmark = needs_root

QUEUE = "orders"
LINE = "line.fifo"
"""A queue of the gateway, in order by groups."""

WAITING = "waiting"
"""A queue whose messages nobody receives or removes."""

_LONG_SECONDS = 300
_PLANTS_BETWEEN = 25
_SERVED_SECONDS = 60
_SEEN_BYTES = 1 << 26
"""How much of an answer is read: a peek shows a file of a TiB, if that is first in its queue."""

_GATEWAY = re.compile(r"process=mq-sqs event=listening url=http://127\.0\.0\.1:(\d+)")


@pytest.fixture
def disk(loop_mount: Callable[..., Path]) -> Path:
    """A file system that has every kind of file, also one of a TiB."""
    return loop_mount("ext4", 256)


@pytest.fixture
def treasure(disk: Path) -> Iterator[Path]:
    """What links lead to."""
    folder = disk / "treasure"
    folder.mkdir()
    (folder / "gold").write_bytes(b"gold")
    before = _seen_in(folder)
    yield folder
    assert _seen_in(folder) == before


def test_any_file_leaves_every_other_message_served(
    disk: Path, treasure: Path, tmp_path: Path
) -> None:
    """Half of the files are there before the processes start."""
    root = disk / "root"
    make_root(root, QUEUE)
    with planter_on(root, "short") as planter:
        plant(planter, 2 * _PLANTS_BETWEEN)
        with closing(Household(root, tmp_path / "log")) as household:
            household.publish_what_waits(planter)
            household.serves()
            for _ in range(2):
                plant(planter, _PLANTS_BETWEEN)
                household.serves()
            household.is_reaped()
            # As `mqctl fsck --repair`, which waits for seconds in between.
            check = Check(root, files_for(root), mend, lambda *_: None, settle_seconds=0.5)
            list(check.run())
            household.serves()


@pytest.mark.crash_long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", ["one", "two"])
def test_any_file_leaves_every_other_message_served_for_longer(
    disk: Path, treasure: Path, tmp_path: Path, seed: str
) -> None:
    root = disk / "root"
    deadline = time.monotonic() + _LONG_SECONDS
    with planter_on(root, seed) as planter:
        with closing(Household(root, tmp_path / "log")) as household:
            waiting = household.publish_what_waits(planter)
            while time.monotonic() < deadline:
                plant(planter, _PLANTS_BETWEEN)
                household.serves()
            household.is_looked_at()
        with closing(Household(root, tmp_path / "log")) as household:
            household.waiting = waiting
            household.serves()
            household.is_looked_at("--repair")


@contextmanager
def planter_on(root: Path, seed: str) -> Iterator[Planter]:
    planter = Planter(root, (QUEUE, LINE, WAITING), random.Random(seed))
    try:
        yield planter
    finally:
        planter.clear()


def plant(planter: Planter, count: int) -> None:
    while count:
        count -= planter.plant() is not None


class Household:
    """`mq --standalone` with a gateway: all processes that work on a root. `close` stops them, and
    looks whether they did without a defect."""

    def __init__(self, root: Path, log: Path) -> None:
        self._root = root
        flags = "--standalone", "--sqs-port=0", "--visibility=600", "--keep=0.1"
        before = log.stat().st_size if log.exists() else 0
        self._server = Server(root, *flags, log=log)
        try:
            wait_until(lambda: _GATEWAY.search(self._server.log(), before), _SERVED_SECONDS)
        except AssertionError:
            self._server.kill()
            raise
        self._gateway_port = int(_GATEWAY.findall(self._server.log())[-1])
        self._ask("PUT", f"/{QUEUE}")
        self._call("CreateQueue", QueueName=LINE, Attributes={"FifoQueue": "true"})
        self._before = self._children()
        self._removed: list[Path] = []
        self.waiting: dict[str, str] = {}
        """The state of each message that stays where it is."""

    def publish_what_waits(self, planter: Planter) -> dict[str, str]:
        """Publish messages that wait for longer than the test takes. The planter links to none."""
        target = f"/{WAITING}/messages"
        self._ask("PUT", f"/{WAITING}")
        ready, leased = self._publish(target), self._publish(target)
        delayed = self._publish(f"{target}?delay=40000")
        self._ask("GET", f"{target}?id={leased}&visibility=40000")
        self.waiting = {ready: "ready", leased: "leased", delayed: "delayed"}
        planter.spared |= self.waiting.keys()
        return self.waiting

    def serves(self) -> None:
        """Let messages take their ways: ready, delayed, released, by the gateway, in groups. All
        are received among what was planted, and removed, and peeks are answered. What waits is as
        it was."""
        delayed = f"/{QUEUE}/messages?delay=0.2"
        ids = [self._publish(f"/{QUEUE}/messages"), self._publish(delayed), self._send()]
        for more in ("", "&max=10", "&max=10&state=leased", "&max=10&state=delayed"):
            self._ask("GET", f"/{QUEUE}/messages?peek{more}")
        leases = self._receive(set(ids))
        self._ask("GET", f"/{QUEUE}/messages?id={ids[0]}&visibility=0", If_Match=leases[ids[0]])
        leases |= self._receive({ids[0]})
        for each in ids:
            self._ask("DELETE", f"/{QUEUE}/messages/{each}", If_Match=leases[each])
        self._removed += [self._root / "remove" / f"{QUEUE}:{each}" for each in ids]
        self._serves_in_order()
        for each, state in self.waiting.items():
            headers, body = self._ask("GET", f"/{WAITING}/messages?peek&id={each}")
            assert (headers["X-State"], body) == (state, b"ours")
        assert self._server.popen.poll() is None
        assert self._children() == self._before

    def is_reaped(self) -> None:
        """See that what was removed goes."""
        wait_until(lambda: not any(map(os.path.lexists, self._removed)), _SERVED_SECONDS)

    def is_looked_at(self, *flags: str) -> None:
        """See that what was removed is reaped, and that fsck says what is there, in good order."""
        self.is_reaped()
        done = Ctl("--root", str(self._root))("fsck", *flags)
        assert done.code in {0, 1}, done
        assert "Traceback" not in done.err
        self.serves()

    def close(self) -> None:
        try:
            assert self._server.stop() == 0
        finally:
            self._server.kill()
        log = self._server.log()
        assert "Traceback" not in log
        assert "event=defect" not in log

    def _children(self) -> set[int]:
        """The mover, the reaper and the gateway: one that ends is started again, as another one."""
        path = Path(f"/proc/{self._server.popen.pid}/task/{self._server.popen.pid}/children")
        return {int(word) for word in path.read_text().split()}

    def _publish(self, target: str) -> str:
        return str(self._ask("POST", target, b"ours")[0]["X-Message-Id"])

    def _send(self) -> str:
        """Publish by the gateway; that it receives as the server does is seen there."""
        return str(self._call("SendMessage", QueueUrl=QUEUE, MessageBody="ours")["MessageId"])

    def _serves_in_order(self) -> None:
        ids = set()
        for group in "ab":
            sent = self._call(
                "SendMessage", QueueUrl=LINE, MessageBody="ours", MessageGroupId=group,
                MessageDeduplicationId=str(time.time_ns()),
            )  # fmt: skip
            ids.add(sent["MessageId"])

        def have_come() -> bool:
            got = self._call("ReceiveMessage", QueueUrl=LINE, MaxNumberOfMessages=10)
            for each in got.get("Messages", []):
                self._call("DeleteMessage", QueueUrl=LINE, ReceiptHandle=each["ReceiptHandle"])
                ids.discard(each["MessageId"])
            return not ids

        try:
            wait_until(have_come, _SERVED_SECONDS)
        except AssertionError as error:
            raise AssertionError(self._seen_of(ids)) from error

    def _call(self, operation: str, **fields: object) -> dict[str, Any]:
        """Ask the gateway."""
        _, answer = self._ask(
            "POST", "/", json.dumps(fields).encode(), self._gateway_port,
            Content_Type="application/x-amz-json-1.0", X_Amz_Target=f"AmazonSQS.{operation}",
        )  # fmt: skip
        return dict(json.loads(answer or b"{}"))

    def _receive(self, ids: set[str]) -> dict[str, str]:
        """Receive until all of these came; their leases. What was planted comes too."""
        leases: dict[str, str] = {}

        def have_come() -> bool:
            _, body = self._ask("GET", f"/{QUEUE}/messages?max=100")
            for line in map(json.loads, body.splitlines()):
                if line["id"] in ids:
                    leases[line["id"]] = f'"{line["lease"]}"'
            return leases.keys() == ids

        try:
            wait_until(have_come, _SERVED_SECONDS)
        except AssertionError as error:
            raise AssertionError(self._seen_of(ids - leases.keys())) from error
        return leases

    def _seen_of(self, ids: set[str]) -> str:
        """Where messages are that do not come, and what the log says."""
        there = [
            f"{folder}/{name}: {os.lstat(os.path.join(folder, name))}"
            for folder, _, names in os.walk(self._root)
            for name in names
            if any(name.endswith(each) for each in ids)
        ]
        return "\n".join([f"did not come: {ids}", *there, self._server.log()[-50_000:]])

    def _ask(self, method: str, target: str, body: bytes | None = None, port: int | None = None,
             **headers: str) -> tuple[dict[str, str], bytes]:  # fmt: skip
        url = f"http://127.0.0.1:{port or self._server.port}{target}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with urlopen(Request(url, body, named, method=method), timeout=60) as answer:
            return dict(answer.headers), answer.read(_SEEN_BYTES)


def _seen_in(folder: Path) -> list[tuple[object, ...]]:
    return [
        (path.name, status.st_ino, status.st_mode, status.st_uid, status.st_ctime_ns)
        for path in sorted([folder, *folder.iterdir()])
        if (status := path.stat())
    ]
