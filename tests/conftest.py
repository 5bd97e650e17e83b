"""Roots, servers on port 0 and loop-mounted file systems of their own; all end with their test, or
with their file of tests if its tests share them."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import pytest
import structlog

from mq.spool.file_system import file_system_kind
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.store.store import Store
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.mounts import LoopMount
from tests.support.mqctl import Ctl
from tests.support.processes import Process, Server, start_mover
from tests.support.stores import store_on
from tests.support.wire import Wire, make_queue

pytest_plugins = ["tests.support.shares", "tests.support.quick"]

# A shell, or nohup, starts what runs in the background with some ignored. Tests pass on none of it.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL
        )

# An editor that runs the tests says `dumb`.
os.environ["TERM"] = "xterm"


def pytest_collection_finish() -> None:
    """What thousands of collected tests are made of stays to the end. Let no collection of garbage
    look at it again: tests that count descriptors collect all the time. The second collection tells
    the collector that little is left: it waits for a quarter of what the last one left behind."""
    gc.collect()
    gc.freeze()
    gc.collect()


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Whatever a test does to the log of this process, others read theirs as usual: a command that
    runs within a test sends all of it to stderr."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


# File systems and roots

_MEMORY = Path("/dev/shm")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="mq-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def disk(root: Path) -> Path:
    """The root where it must be on a medium that can be synced."""
    kind = file_system_kind(root.parent)
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{kind} keeps nothing: give pytest a --basetemp on a disk")
    return root


@pytest.fixture
def loop_mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """`loop_mount("ext4", 64)` makes and mounts a file system of 64 MiB; returns where."""
    mounts: list[LoopMount] = []

    def make(kind: str, megabytes: int, *options: str, mount: tuple[str, ...] = ()) -> Path:
        if os.geteuid() != 0:
            pytest.skip("loop mounts need root")
        if shutil.which(f"mkfs.{kind}") is None:
            package = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[kind]
            pytest.skip(f"mkfs.{kind} is missing: install the package {package}")
        mounts.append(LoopMount(kind, tmp_path, megabytes, *options, mount=mount))
        return mounts[-1].path

    yield make
    for made in mounts:
        made.unmount()


@pytest.fixture
def orders(root: Path) -> Path:
    """The folder of the queue `orders`."""
    return root / "queues" / "orders"


@pytest.fixture
def open_spool(root: Path) -> Iterator[Callable[[WatchedFiles], Spool]]:
    """`open_spool(files)` opens the root as one more process would; closed with the test."""
    opened: list[Spool] = []

    def open_one(files: WatchedFiles) -> Spool:
        opened.append(open_root(root, 0o700, files)[0])
        return opened[-1]

    yield open_one
    for spool in opened:
        spool.close()


@pytest.fixture(params=[WatchedFiles, OldFiles])
def files(request: pytest.FixtureRequest) -> WatchedFiles:
    """Both kinds of file system: with RENAME_NOREPLACE and unnamed files, and without."""
    made = request.param()
    assert isinstance(made, WatchedFiles)
    return made


@pytest.fixture
def spool(open_spool: Callable[[WatchedFiles], Spool], files: WatchedFiles) -> Spool:
    """A root with one queue, `orders`."""
    opened = open_spool(files)
    (opened.root / "queues" / "orders").mkdir()
    return opened


@pytest.fixture
async def store(root: Path, files: WatchedFiles) -> AsyncIterator[Store]:
    async with store_on(root, files) as opened:
        yield opened


# Processes and connections to them


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Process]]:
    """Put a process in here, and it is killed when the test ends."""
    started: list[Process] = []
    yield started
    for process in started:
        if process.popen.poll() is None:
            process.kill()


@pytest.fixture
def start_server(tmp_path: Path, processes: list[Process]) -> Callable[..., Server]:
    """`start_server("--visibility=1", root=...)` starts `mq`; it is killed when the test ends."""

    def start(*flags: str, root: Path | None = None, module: str = "mq") -> Server:
        log = tmp_path / f"mq-{len(processes)}.log"
        server = Server(root or tmp_path / "root", *flags, log=log, module=module)
        processes.append(server)
        return server

    return start


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """`start_shared("--visibility=1")` starts a server that lasts as long as the file of tests.

    Whatever clients do, no server logs a defect.
    """
    servers: list[Server] = []

    def start(*flags: str, module: str = "mq") -> Server:
        folder = tmp_path_factory.mktemp("mq")
        servers.append(Server(folder / "root", *flags, log=folder / "mq.log", module=module))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
        assert "Traceback" not in server.log()


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server]) -> Server:
    """One for the whole file; each test has a queue of its own."""
    return start_shared()


@pytest.fixture(scope="module")
def hasty_server(start_shared: Callable[..., Server]) -> Iterator[Server]:
    """Its leases last 0.3 s, and a mover redelivers."""
    server = start_shared("--visibility=0.3")
    mover = start_mover(server.root)
    yield server
    mover.kill()


@pytest.fixture
def connect() -> Iterator[Callable[[Server], Wire]]:
    """`connect(server)` opens a connection; it is closed when the test ends."""
    wires: list[Wire] = []

    def open_wire(server: Server) -> Wire:
        wires.append(Wire(server.port))
        return wires[-1]

    yield open_wire
    for wire in wires:
        wire.close()


@pytest.fixture
def wire(server: Server, connect: Callable[[Server], Wire]) -> Wire:
    return connect(server)


@pytest.fixture
def hasty(hasty_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    """A connection to the hasty server."""
    return connect(hasty_server)


@pytest.fixture
def queue(wire: Wire) -> str:
    """A new queue on the file's server."""
    return make_queue(wire)


@pytest.fixture
def by_http(server: Server) -> Ctl:
    return Ctl("--url", server.url)


@pytest.fixture
def by_root(server: Server) -> Ctl:
    return Ctl("--root", str(server.root))


@pytest.fixture(params=["http", "root"])
def ctl(request: pytest.FixtureRequest, server: Server) -> Ctl:
    """Both ways to the same server's queues."""
    return Ctl("--url", server.url) if request.param == "http" else Ctl("--root", str(server.root))


@pytest.fixture
def no_way() -> Ctl:
    return Ctl()


@pytest.fixture(scope="module")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder where many small files are quick, in memory if that keeps extended attributes. What
    a test does there is not about that file system."""
    parent = _MEMORY if _keeps_attributes(_MEMORY) else tmp_path_factory.mktemp("quick")
    with TemporaryDirectory(dir=parent) as folder:
        if not _keeps_attributes(Path(folder)):
            pytest.skip("no user extended attributes in /dev/shm and the temporary folder")
        yield Path(folder)


def _keeps_attributes(folder: Path) -> bool:
    try:
        with TemporaryFile(dir=folder) as file:
            os.setxattr(file.fileno(), "user.mq", b"probe")
    except OSError:
        return False
    return True
