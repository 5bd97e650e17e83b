"""What a process refuses to start on: one clear line on stderr, and an exit code of that kind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mq.config import ServerConfig
from mq.daemon.cli import check_abilities, mq
from mq.daemon.server import serve
from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode, StartRefused
from mq.lifecycle import FIXED_FOLDERS
from tests.support.processes import Server
from tests.support.refusals import refusal_of, start
from tests.support.users import BECOME_NOBODY, NOBODY, needs_root

AS_NOBODY = f"""
import mq.daemon.server  # all that it imports, while it may still be read
from mq.daemon.cli import main
{BECOME_NOBODY}
main()
"""


@pytest.fixture
def mounted_root(tmp_path: Path) -> Iterator[Path]:
    """A root whose `delay` is a file system of its own."""
    if shutil.which("mount") is None:
        pytest.skip("mount is missing: install the package mount")
    root = tmp_path / "root"
    for folder in FIXED_FOLDERS:
        (root / folder).mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", root / "delay"], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount a file system")
    yield root
    subprocess.run(["umount", root / "delay"], check=True)


@needs_root
def test_server_refuses_folders_on_different_file_systems(mounted_root: Path) -> None:
    refusal = start("mq", f"--root={mounted_root}", "--port=0")

    assert refusal.exit_code == ExitCode.FOLDERS
    assert f"{mounted_root}: folders new+queues+remove and delay are on different" in refusal.line


@needs_root
def test_mover_refuses_folders_on_different_file_systems(mounted_root: Path) -> None:
    source, destination = mounted_root / "delay", mounted_root / "queues"

    refusal = start("mq_mover", f"--source={source}", f"--destination={destination}")

    assert refusal.exit_code == ExitCode.FOLDERS
    assert f"{source} and {destination} are on different file systems" in refusal.line


@needs_root
def test_server_refuses_a_root_that_it_cannot_write_to(public_folder: Path) -> None:
    root = public_folder / "root"

    refusal = refusal_of([sys.executable, "-c", AS_NOBODY, f"--root={root}", "--port=0"], {})

    assert refusal.exit_code == ExitCode.ROOT
    assert f"root {root}: Permission denied: {root}; the server must be able" in refusal.line
    assert not root.exists()


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o755], ids=oct)
def test_server_refuses_a_root_that_belongs_to_somebody_else(
    public_folder: Path, mode: int
) -> None:
    """Whether it may look into it or not."""
    root = public_folder / "root"
    for folder in FIXED_FOLDERS:
        (root / folder).mkdir(parents=True)
    root.chmod(mode)

    refusal = refusal_of([sys.executable, "-c", AS_NOBODY, f"--root={root}", "--port=0"], {})

    assert refusal.exit_code == ExitCode.OWNER
    assert f"{root} belongs to user 0, this process is user {NOBODY}" in refusal.line


@pytest.mark.parametrize("link", ["root", "above/root"])
def test_server_refuses_a_link_that_anybody_may_have_planted(tmp_path: Path, link: str) -> None:
    """The root itself, or a folder above it."""
    (tmp_path / "elsewhere").mkdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    planted = shared / Path(link).parts[0]
    planted.symlink_to(tmp_path / "elsewhere")
    os.chown(planted, NOBODY if os.geteuid() == 0 else -1, -1, follow_symlinks=False)

    refusal = start("mq", f"--root={shared / link}", "--port=0")

    assert refusal.exit_code == ExitCode.OWNER
    assert f"{planted} is a link in a folder that everybody may write to" in refusal.line
    assert list((tmp_path / "elsewhere").iterdir()) == []


@needs_root
def test_server_follows_a_link_of_the_user_root(
    tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "root").symlink_to(tmp_path / "elsewhere")

    start_server(root=shared / "root")

    assert (tmp_path / "elsewhere" / "queues").is_dir()


@pytest.mark.parametrize("place", ["root", "root/new"])
def test_server_refuses_a_file_where_a_folder_must_be(tmp_path: Path, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"kept")

    refusal = start("mq", f"--root={tmp_path / 'root'}", "--port=0")

    assert refusal.exit_code == ExitCode.ROOT
    assert f"{file} is not a folder; move it away" in refusal.line
    assert file.read_bytes() == b"kept"


@pytest.mark.parametrize("found", ["", "\0\0\0\0\0"])
def test_server_names_the_way_out_of_a_blank_format(tmp_path: Path, found: str) -> None:
    """A copy may have been cut off. No version wrote that."""
    (tmp_path / "format").write_text(found)

    refusal = start("mq", f"--root={tmp_path}", "--port=0")

    assert refusal.exit_code == ExitCode.FORMAT
    assert f"{tmp_path}/format is blank" in refusal.line
    assert f"mqctl --root {tmp_path} fsck --repair writes it again" in refusal.line


@pytest.mark.parametrize("plant", [os.mkdir, os.mkfifo])
def test_server_names_what_has_the_place_of_the_format(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    plant(tmp_path / "format")

    refusal = start("mq", f"--root={tmp_path}", "--port=0")

    assert refusal.exit_code == ExitCode.ROOT
    assert f"Not a regular file: {tmp_path}/format;" in refusal.line


@pytest.mark.parametrize("found", ["mq 3", "something else\nof two lines"])
def test_server_refuses_an_unknown_format(tmp_path: Path, found: str) -> None:
    (tmp_path / "format").write_text(found)

    refusal = start("mq", f"--root={tmp_path}", "--port=0")

    assert refusal.exit_code == ExitCode.FORMAT
    assert f"{tmp_path}/format says" in refusal.line
    assert "this server knows 'mq 1'" in refusal.line
    assert (tmp_path / "format").read_text() == found


def test_server_refuses_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        refusal = start("mq", f"--root={tmp_path / 'root'}", f"--port={port}")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in refusal.line


def test_server_refuses_an_address_that_is_not_there(tmp_path: Path) -> None:
    refusal = start("mq", f"--root={tmp_path / 'root'}", "--address=192.0.2.1", "--port=0")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert "cannot listen on 192.0.2.1 port 0" in refusal.line


def test_server_refuses_another_system_than_linux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    with pytest.raises(StartRefused, match="Linux only; this is darwin") as refused:
        serve(ServerConfig(root=tmp_path))

    assert refused.value.exit_code == ExitCode.SYSTEM


@pytest.mark.parametrize(
    ("module", "arguments", "named"),
    [
        ("mq", ["--port=70000"], "--port"),
        ("mq", ["--port=http"], "--port"),
        ("mq", ["--workers=0"], "--workers"),
        ("mq", ["--peers=-1"], "--peers"),
        ("mq", ["--visibility=0"], "--visibility"),
        ("mq", ["--visibility=nan"], "--visibility"),
        ("mq", ["--visibility=2592001"], "--visibility"),
        ("mq", ["--keep=inf"], "--keep"),
        ("mq", ["--keep=9"], "--keep goes with --standalone; or give it to mq-reaper"),
        ("mq", ["--max-body=lots"], "'lots' is not a size; write it like 65536, 64KiB or 256MiB"),
        ("mq", ["--max-body=-1"], "--max-body"),
        ("mq", ["--min-free=1.5GiB"], "--min-free"),
        ("mq", ["--mode=077"], "--mode"),
        ("mq", ["--mode=999"], "--mode"),
        ("mq", ["--log-format=xml"], "--log-format"),
        ("mq", ["--keep=-1"], "--keep"),
        ("mq", ["--colour=red"], "--colour"),
        ("mq", ["--port=http"], "'http' is not a port, such as 8080"),
        ("mq", ["--port=-1"], "-1 is not in the range"),
        ("mq", ["--allowed-host=one two"], "'one two' is not a host name"),
        ("mq", ["queue"], "queue"),
        ("mq", ["--admin=off", "--admin-write"], "--admin-write needs an admin listener"),
        ("mq_mover", ["--destination=."], "--source"),
        ("mq_mover", ["--source=.", "--destination=.", "--delay=-1"], "--delay"),
        ("mq_mover", ["--source=.", "--destination=.", "--max-receives=x"], "--max-receives"),
        ("mq_reaper", ["--keep=soon"], "--keep"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_flag_is_named(module: str, arguments: list[str], named: str) -> None:
    refusal = start(module, *arguments)

    assert refusal.exit_code == ExitCode.USAGE
    assert named in refusal.line


def test_bad_variable_is_named() -> None:
    refusal = start("mq", MQ_VISIBILITY="long")

    assert refusal.exit_code == ExitCode.USAGE
    assert "'long' is not a number of seconds" in refusal.line
    assert "MQ_VISIBILITY" in refusal.line


def test_what_kubernetes_puts_into_the_variable_of_a_port_is_named() -> None:
    refusal = start("mq", MQ_PORT="tcp://10.0.0.11:8080")

    assert refusal.exit_code == ExitCode.USAGE
    assert "is what Kubernetes puts there for a Service of that name" in refusal.line
    assert "enableServiceLinks: false" in refusal.line


@pytest.mark.parametrize("module", ["mq_mover", "mq_reaper"])
def test_mover_and_reaper_refuse_a_folder_that_is_not_there(tmp_path: Path, module: str) -> None:
    missing = tmp_path / "missing"
    more = [f"--destination={tmp_path}"] if module == "mq_mover" else []

    refusal = start(module, f"--source={missing}", *more)

    assert refusal.exit_code == ExitCode.ROOT
    assert f"folder {missing}: No such file or directory; make it, or start mq" in refusal.line


def test_check_says_what_the_file_system_can_do(tmp_path: Path) -> None:
    said = CliRunner().invoke(mq, ["--check", f"--root={tmp_path / 'root'}"])

    assert said.exit_code == 0
    assert "lock of a folder                    yes  works\n" in said.output
    assert os.listdir(tmp_path) == []


def test_check_names_what_a_server_cannot_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Files, "lock_byte", lambda self, fd, offset: True)

    with pytest.raises(CommandFailed, match="lacks: lock of a byte; choose") as refused:
        check_abilities(tmp_path)

    assert refused.value.exit_code == ExitCode.SYSTEM


@needs_root
def test_check_needs_a_folder_that_it_can_write_to() -> None:
    with pytest.raises(CommandFailed, match="root /proc/none: ") as refused:
        check_abilities(Path("/proc/none"))

    assert refused.value.exit_code == ExitCode.ROOT
