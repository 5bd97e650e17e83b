"""The recipes of docs/backup.md that no other test runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.client import Client, QueueNotFound
from tests.support.mqctl import without_ours
from tests.support.processes import Server
from tests.support.sources import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "backup.md").read_text()


def _recipe(name: str) -> str:
    return DOCUMENT.partition(f"<!-- {name} -->\n```sh\n")[2].partition("```")[0]


@pytest.mark.parametrize("mistakes", [["delete"], ["purge"], ["purge", "delete"]], ids="-".join)
@pytest.mark.parametrize("count", [5, 1500], ids=["short", "long"])
def test_a_queue_that_was_deleted_or_purged_by_mistake_comes_back(
    start_server: Callable[..., Server], mistakes: list[str], count: int
) -> None:
    """A long queue is purged by its folder. No reaper runs here."""
    server = start_server()
    bodies = [f"{number:04}" for number in range(count)]
    with Client(server.url) as mq:
        orders = mq.queue("orders")
        orders.create()
        orders.publish_many(bodies)
        assert orders.receive() is not None
        orders.publish("later", delay=3600)

        for mistake in mistakes:
            assert getattr(orders, mistake)() in (None, count + 1)
        orders.create()
        subprocess.run(["sh", "-c", _recipe("bring back")], cwd=server.root, check=True)

        found = []
        while messages := orders.receive_many(1000):
            found += [message.text() for message in messages]
    assert found == [*bodies, "later"]


@pytest.mark.parametrize("recipe", ["copy a live root", "copy a live root twice"])
def test_a_later_copy_has_nothing_left_of_an_earlier_one(
    start_server: Callable[..., Server], tmp_path: Path, recipe: str
) -> None:
    if shutil.which("rsync") is None:
        pytest.skip("needs rsync (Debian: rsync)")
    server = start_server(root=tmp_path / "root")
    script = f"PROCESSES={server.popen.pid}\n{_recipe(recipe)}"
    (tmp_path / "root.links").mkdir()  # An earlier copy was interrupted.
    with Client(server.url) as mq:
        orders = mq.queue("orders")
        orders.create()
        for body in ("removed", "received", "ready"):
            orders.publish(body)
        subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True)
        for _ in range(2):
            message = orders.receive()
            assert message is not None
            if message.text() == "removed":
                orders.remove(message.id)
        subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True)

    assert _files_in(tmp_path / "backup") == _files_in(server.root)


def test_a_copy_is_put_back_in_place_of_its_root(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    if shutil.which("rsync") is None:
        pytest.skip("needs rsync (Debian: rsync)")
    server = start_server("--visibility=900", root=tmp_path / "root")
    with Client(server.url) as mq:
        orders = mq.queue("orders")
        orders.create({"max-receives": 5})
        orders.publish_many(["leased", "removed since", "ready"])
        leased = orders.receive()
        assert leased is not None
        subprocess.run(["rsync", "-aX", "root/", "backup/"], cwd=tmp_path, check=True)
        leased.ack()
        removed = orders.receive()
        assert removed is not None
        removed.ack()
        orders.publish("published since")
        mq.queue("made.since").create()
    server.stop()

    found = _run("put a copy back", tmp_path)

    assert found.stdout == ""
    server = start_server("--visibility=900", root=tmp_path / "root")
    with Client(server.url) as mq:
        orders = mq.queue("orders")
        assert orders.settings() == {"max-receives": 5}
        assert [each.text() for each in orders.receive_many(10)] == ["removed since", "ready"]
        assert orders.ack_many({leased.id: leased.lease}) == {}
        with pytest.raises(QueueNotFound):
            mq.queue("made.since").counts()


def test_one_queue_is_brought_back_without_what_is_there(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = start_server(root=tmp_path / "root")
    bodies = ["reaped", "removed", "received", "ready"]
    with Client(server.url) as mq:
        orders = mq.queue("orders")
        orders.create()
        for body in bodies:
            orders.publish(body)
        subprocess.run(["cp", "-a", "root", "backup"], cwd=tmp_path, check=True)
        for body in bodies[:3]:
            message = orders.receive()
            assert message is not None
            assert message.text() == body
            if body != "received":
                message.ack()
            if body == "reaped":
                (server.root / f"remove/orders:{message.id}").unlink()

        _run("bring back one queue", tmp_path)

        found = []
        while messages := orders.receive_many(10):
            found += [message.text() for message in messages]
    assert sorted(found) == ["ready", "reaped"]


def _run(recipe: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a recipe that uses commands of MQ in the folder that contains `root`."""
    others = without_ours()
    others["PATH"] = f"{Path(sys.executable).parent}:{others['PATH']}"
    script = ["bash", "-e", "-c", f"set -o pipefail\n{_recipe(recipe)}"]
    return subprocess.run(
        script, cwd=folder, env=others, check=True, stdout=subprocess.PIPE, text=True
    )


def _files_in(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
