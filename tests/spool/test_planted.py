"""What another user plants in a tree that --mode lets everybody write to: it leads nowhere, it is
reported, and no message suffers. And the modes that keep others out by default."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.messages import names_in
from tests.support.processes import (
    IMPATIENT,
    Process,
    Server,
    start_mover,
    start_reaper,
    wait_until,
)
from tests.support.users import BECOME_NOBODY, needs_root
from tests.support.wire import Wire, assert_problem, request_bytes

SECRET = b"what only the server may read"


@pytest.fixture
def secret(public_folder: Path) -> Path:
    path = public_folder / "secret"
    path.touch(mode=0o600)
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def server(
    public_folder: Path, start_server: Callable[..., Server], processes: list[Process]
) -> Server:
    """Everybody may write into its root; a mover and a reaper are at work."""
    server = start_server(
        "--mode=777", "--visibility=0.2", "--max-receives=1", root=public_folder / "root",
        module=IMPATIENT,
    )  # fmt: skip
    processes += [start_mover(server.root), start_reaper(server.root)]
    return server


def plant(code: str, *arguments: Path) -> None:
    """Run `code` as the user nobody, with `paths`."""
    read = "import sys; paths = [pathlib.Path(each) for each in sys.argv[1:]]\n"
    command = [sys.executable, "-S", "-c", "import pathlib\n" + BECOME_NOBODY + read + code]
    subprocess.run([*command, *map(str, arguments)], check=True, timeout=30)


def test_only_the_owner_gets_into_a_root(server_root: Path) -> None:
    """Every folder is 0700, every file 0600, whatever the operations were."""
    modes = {
        str(path.relative_to(server_root)): stat.S_IMODE(path.lstat().st_mode)
        for path in (server_root, *server_root.rglob("*"))
    }
    assert {name for name, mode in modes.items() if mode not in (0o600, 0o700)} == set()
    assert {
        name for name, mode in modes.items()
        if (mode == 0o700) != (server_root / name).is_dir()
    } == set()  # fmt: skip
    assert len(modes) > 12


@pytest.fixture
def server_root(start_server: Callable[..., Server]) -> Path:
    """After one of each operation, with messages in every folder."""
    server = start_server()
    wire = Wire(server.port)
    for queue in ("orders", "bills"):
        wire.request("PUT", f"/{queue}")
        wire.publish(queue, b"x" * 600_000)
        for body in (b"a", b"b", b"c"):
            wire.publish(queue, body)
        wire.receive(queue)
    wire.remove("orders", wire.receive("orders").headers["x-message-id"])
    damaged = min((server.root / "queues" / "orders").iterdir())
    damaged.write_bytes(b"not what was published")
    wire.receive("orders")
    wire.request("DELETE", "/bills")
    wire.close()
    assert names_in(server.root / "corrupt")
    return server.root


@needs_root
def test_links_and_files_of_others_are_no_messages(
    server: Server, secret: Path, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    wire.request("PUT", "/orders")
    queue = server.root / "queues" / "orders"
    ours = wire.publish("orders", b"ours")
    plant(
        """
queue, secret = paths
(queue / "00000000-link").symlink_to(secret)
(queue / "00000000-file").write_bytes(b"forged")
os.chmod(queue / "00000000-file", 0o666)
os.mkfifo(queue / "00000000-fifo")
(queue / "00000000-folder").mkdir()
try:
    os.link(secret, queue / "00000000-hard")
except OSError:
    pass  # fs.protected_hardlinks
""",
        queue,
        secret,
    )

    answer = wire.receive("orders")

    assert answer.headers["x-message-id"] == ours
    assert answer.body == b"ours"
    assert wire.receive("orders").status == 204
    for kind in ("link", "file", "fifo"):
        line = f'name=queues/orders/00000000-{kind} why="no regular file, or another user'
        assert line in server.log()
    assert {"00000000-link", "00000000-file", "00000000-fifo"} <= set(names_in(queue))
    for kind in ("link", "file", "fifo"):
        peeked = wire.request("GET", f"/orders/messages?peek&id=00000000-{kind}")
        assert SECRET not in peeked.body
    assert secret.read_bytes() == SECRET
    assert wire.publish("orders", b"more")


@needs_root
def test_folders_and_links_of_others_are_no_queues(
    server: Server, public_folder: Path, connect: Callable[[Server], Wire]
) -> None:
    elsewhere = public_folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1").write_bytes(SECRET)
    plant(
        """
queues, elsewhere = paths
(queues / "evil").mkdir(mode=0o777)
(queues / "evil" / "1").write_bytes(b"forged")
(queues / "away").symlink_to(elsewhere)
""",
        server.root / "queues",
        elsewhere,
    )
    wire = connect(server)

    for name in ("evil", "away"):
        assert_problem(wire.receive(name), 404, "queue-not-found")
        assert_problem(wire.request("GET", f"/{name}"), 404, "queue-not-found")
        assert_problem(wire.request("POST", f"/{name}/messages", b"x"), 404, "queue-not-found")
        assert wire.request("PUT", f"/{name}").status == 503
        assert f"name=queues/{name} why=\"no folder, another user's" in server.log()
    assert names_in(elsewhere) == ["1"]


@needs_root
def test_what_others_put_into_new_and_delay_goes_nowhere(
    server: Server, secret: Path, public_folder: Path, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    wire.request("PUT", "/orders")
    plant(
        """
root, secret = paths
for folder in ("new", "delay"):
    (root / folder / "orders:link").symlink_to(secret)
    (root / folder / "orders:file").write_bytes(b"forged")
    os.chmod(root / folder / "orders:file", 0o666)
""",
        server.root,
        secret,
    )

    mover_log = public_folder / "mover.log"
    wait_until(lambda: mover_log.read_text().count("file left where it is") >= 2)
    wait_until(lambda: server.log().count("name=new/orders:") >= 2)

    assert names_in(server.root / "queues" / "orders") == []
    assert wire.receive("orders").status == 204
    assert names_in(server.root / "new") == ["orders:file", "orders:link"]
    assert names_in(server.root / "delay") == ["orders:file", "orders:link"]
    assert secret.read_bytes() == SECRET


@needs_root
def test_reaper_follows_nothing_that_others_put_into_remove(
    server: Server, public_folder: Path, secret: Path
) -> None:
    elsewhere = public_folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(SECRET)
    plant(
        """
remove, secret, elsewhere = paths
(remove / "orders:link").symlink_to(secret)
(remove / "orders:.1b671a64-40d5-491e-99b0-da01ff1f3341").symlink_to(elsewhere)
(remove / "bills:.1b671a64-40d5-491e-99b0-da01ff1f3341").mkdir()
(remove / "bills:.1b671a64-40d5-491e-99b0-da01ff1f3341" / "1").symlink_to(secret)
""",
        server.root / "remove",
        secret,
        elsewhere,
    )

    wait_until(lambda: names_in(server.root / "remove") == [], 20)

    assert secret.read_bytes() == SECRET
    assert (elsewhere / "kept").read_bytes() == SECRET


@needs_root
def test_damaged_messages_go_into_no_folder_of_others(
    server: Server, public_folder: Path, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    wire.request("PUT", "/orders")
    wire.publish("orders", b"damaged")
    [message] = (server.root / "queues" / "orders").iterdir()
    message.write_bytes(b"xxxxxxx")
    plant("(paths[0] / 'corrupt').mkdir(mode=0o777)", server.root)

    assert wire.receive("orders").status in (204, 503)

    assert names_in(server.root / "corrupt") == []
    assert wire.publish("orders", b"more")


@needs_root
def test_a_file_of_another_user_is_neither_peeked_at_nor_taken_for_a_publish_again(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire = connect(server)
    wire.request("PUT", "/orders")
    places = ["queues/orders/same", "queues/orders/other", "delay/orders:delayed", "new/orders:new"]
    plant(
        """
for path in paths:
    path.write_bytes(b"forged" if path.name.endswith("other") else b"guessed")
    path.chmod(0o666)
""",
        *(server.root / place for place in places),
    )

    for name in ("same", "other", "delayed"):
        assert wire.request("GET", f"/orders/messages?peek&id={name}").status == 404
    names = ("same", "other", "delayed", "new")
    for name in names:
        answer = wire.request("POST", "/orders/messages", b"guessed", x_message_id=name)
        assert answer.status == 201
    received = [wire.receive("orders") for _ in names]

    assert {answer.headers["x-message-id"] for answer in received} == set(names)
    assert {answer.body for answer in received} == {b"guessed"}
    assert names_in(server.root / "corrupt") == sorted(f"orders:{name}" for name in names)


@needs_root
def test_a_queue_that_another_user_has_locked_is_unavailable_not_missing(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire, other = connect(server), connect(server)
    wire.request("PUT", "/orders")
    wire.publish("orders", b"before")
    fd = os.open(server.root / "queues" / "orders", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)

    # It may be a purge, so the server waits a while; for both at once.
    wire.send(request_bytes("POST", "/orders/messages", b"body"))
    other.send(request_bytes("GET", "/orders/messages"))
    for each in (wire, other):
        each.socket.settimeout(60)
        assert_problem(each.answer(), 503, "unavailable", "another process")
    os.close(fd)

    assert wire.publish("orders", b"after")
    assert wire.receive("orders").body == b"before"
