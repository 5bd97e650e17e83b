"""Any file in any folder, under any name and with any content, leaves every process running and
every other message served."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from mq.fsck.check import Check, Treatment, mend, report
from mq.spool.network_files import files_for
from tests.crash.fuzz.planting import Planter
from tests.support.mqctl import Ctl
from tests.support.processes import Server, wait_until
from tests.support.users import needs_root

pytestmark = needs_root

QUEUE = "orders"
_SHORT_PLANTS = 100
_LONG_SECONDS = 300
_PLANTS_BETWEEN = 25
_SERVED_SECONDS = 60
_SETTLE_SECONDS = 0.5
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


@pytest.mark.parametrize("seed", ["short"])
def test_any_file_leaves_every_other_message_served(
    disk: Path, treasure: Path, tmp_path: Path, seed: str
) -> None:
    plant_and_look(disk / "root", tmp_path, seed, lambda planted: planted < _SHORT_PLANTS, fsck)


@pytest.mark.crash_long
@pytest.mark.parametrize("seed", ["one", "two"])
def test_any_file_leaves_every_other_message_served_for_longer(
    disk: Path, treasure: Path, tmp_path: Path, seed: str
) -> None:
    deadline = time.monotonic() + _LONG_SECONDS
    plant_and_look(disk / "root", tmp_path, seed, lambda _: time.monotonic() < deadline, mqctl_fsck)


def fsck(root: Path, treat: Treatment) -> None:
    """As `mqctl fsck` does, but it does not wait for seconds."""
    check = Check(root, files_for(root), treat, lambda *_: None, settle_seconds=_SETTLE_SECONDS)
    list(check.run())


def mqctl_fsck(root: Path, treat: Treatment) -> None:
    done = Ctl("--root", str(root))("fsck", *(["--repair"] if treat is mend else []))
    assert done.code in {0, 1}, done
    assert "Traceback" not in done.err


def plant_and_look(
    root: Path,
    folder: Path,
    seed: str,
    goes_on: Callable[[int], bool],
    look_at: Callable[[Path, Treatment], None],
) -> None:
    planter = Planter(root, QUEUE, random.Random(seed))
    planted = 0
    try:
        with closing(Household(root, folder / "log")) as household:
            while goes_on(planted):
                for _ in range(_PLANTS_BETWEEN):
                    planted += planter.plant() is not None
                household.serves()
            household.is_reaped()
            look_at(root, report)
            household.serves()
        with closing(Household(root, folder / "log")) as household:
            household.serves()
            household.is_reaped()
            look_at(root, mend)
            household.serves()
    finally:
        for path in planter.immutable:
            subprocess.run(["chattr", "-i", path], check=False, capture_output=True)


class Household:
    """`mq --standalone` with a gateway: all processes that work on a root. `close` stops them, and
    looks whether they did without a defect."""

    def __init__(self, root: Path, log: Path) -> None:
        self._root = root
        flags = "--standalone", "--sqs-port=0", "--visibility=600", "--keep=0.1"
        before = log.stat().st_size if log.exists() else 0
        self._server = Server(root, *flags, log=log)
        wait_until(lambda: _GATEWAY.search(self._server.log(), before), 30)
        self._gateway_port = int(_GATEWAY.findall(self._server.log())[-1])
        self._ask("PUT", f"/{QUEUE}")
        self._before = self._children()
        self._removed: list[Path] = []

    def serves(self) -> None:
        """Let messages take their ways: ready, delayed, released, and through the gateway. All are
        received among what was planted, and removed."""
        delayed = f"/{QUEUE}/messages?delay=0.2"
        ids = [self._publish(f"/{QUEUE}/messages"), self._publish(delayed), self._send()]
        leases = self._receive(set(ids))
        self._ask("GET", f"/{QUEUE}/messages?id={ids[0]}&visibility=0", If_Match=leases[ids[0]])
        leases |= self._receive({ids[0]})
        for each in ids:
            self._ask("DELETE", f"/{QUEUE}/messages/{each}", If_Match=leases[each])
        self._removed += [self._root / "remove" / f"{QUEUE}:{each}" for each in ids]
        assert self._server.popen.poll() is None
        assert self._children() == self._before

    def is_reaped(self) -> None:
        """See that what was removed goes."""
        wait_until(lambda: not any(map(os.path.lexists, self._removed)), _SERVED_SECONDS)

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
        body = json.dumps({"QueueUrl": QUEUE, "MessageBody": "ours"}).encode()
        answer = self._ask(
            "POST", "/", body, self._gateway_port,
            Content_Type="application/x-amz-json-1.0", X_Amz_Target="AmazonSQS.SendMessage",
        )  # fmt: skip
        return str(json.loads(answer[1])["MessageId"])

    def _receive(self, ids: set[str]) -> dict[str, str]:
        """Receive until all of these came; their leases. What was planted comes too."""
        leases: dict[str, str] = {}

        def have_come() -> bool:
            _, body = self._ask("GET", f"/{QUEUE}/messages?max=100")
            for line in map(json.loads, body.splitlines()):
                if line["id"] in ids:
                    leases[line["id"]] = f'"{line["lease"]}"'
            return leases.keys() == ids

        wait_until(have_come, _SERVED_SECONDS)
        return leases

    def _ask(self, method: str, target: str, body: bytes | None = None, port: int | None = None,
             **headers: str) -> tuple[dict[str, str], bytes]:  # fmt: skip
        url = f"http://127.0.0.1:{port or self._server.port}{target}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with urlopen(Request(url, body, named, method=method), timeout=60) as answer:
            return dict(answer.headers), answer.read()


def _seen_in(folder: Path) -> list[tuple[object, ...]]:
    return [
        (path.name, status.st_ino, status.st_mode, status.st_uid, status.st_ctime_ns)
        for path in sorted([folder, *folder.iterdir()])
        if (status := path.stat())
    ]
