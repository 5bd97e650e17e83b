"""Two hosts of this machine, in network namespaces, and a GlusterFS volume that both have a brick
of and a mount of. Root only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.mounts import LoopMount
from tests.support.mqctl import without_ours

BRIDGE = "mqbr"
GATEWAY = "10.77.0.254"
VOLUME = "mq"
PING_SECONDS = 5

_HOST = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/gluster /run/lock /var/lib/glusterd /var/log/glusterfs
mount --bind "$1/glusterd" /var/lib/glusterd
mount --bind "$1/log" /var/log/glusterfs
hostname "$2"
glusterd --no-daemon
"""

_OPTIONS = {
    "cluster.quorum-type": "auto",
    "network.ping-timeout": str(PING_SECONDS),
    # Names and attributes that another host has changed are seen too late otherwise.
    "performance.stat-prefetch": "off",
}


def missing() -> str | None:
    """Why there are no hosts here; None if there can be."""
    if os.geteuid() != 0:
        return "only root makes network namespaces and mounts"
    for command in ("glusterd", "ip", "nsenter", "unshare", "mkfs.xfs"):
        if shutil.which(command) is None:
            return f"needs {command} (Debian: glusterfs-server, iproute2, util-linux, xfsprogs)"
    return None if Path("/dev/fuse").exists() else "needs /dev/fuse"


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")


class GlusterHost:
    """One host: a network namespace with an address, mounts of its own, and what runs there."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name = f"mqhost{number}"
        self.address = f"10.77.0.{number}"
        self.folder = folder / self.name
        self.mount = self.folder / "mnt"
        self._link = f"mqv{number}"
        self._processes: list[subprocess.Popen[bytes]] = []
        for each in ("glusterd", "log", "mnt"):
            (self.folder / each).mkdir(parents=True)
        self.disk = LoopMount("xfs", self.folder, 1024)
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "e0", "netns", self.name)
        _run("ip", "link", "set", self._link, "master", BRIDGE, "up")
        _run("ip", "-n", self.name, "addr", "add", f"{self.address}/24", "dev", "e0")
        _run("ip", "-n", self.name, "link", "set", "e0", "up")
        _run("ip", "-n", self.name, "link", "set", "lo", "up")
        with (self.folder / "out").open("wb") as out:
            self._keeper = subprocess.Popen(
                ["ip", "netns", "exec", self.name, "unshare", "--mount", "--uts", "bash", "-c",
                 _HOST, "bash", str(self.folder), self.name],
                stdout=out, stderr=out,
            )  # fmt: skip

    @property
    def brick(self) -> str:
        return f"{self.address}:{self.disk.path}/brick"

    def command(self, *command: str) -> list[str]:
        """The command line that runs there."""
        return ["nsenter", "-t", str(self._keeper.pid), "--mount", "--net", "--uts", *command]

    def run(self, *command: str) -> None:
        _run(*self.command(*command))

    def output(self, *command: str) -> str:
        done = subprocess.run(self.command(*command), check=True, capture_output=True, text=True)
        return done.stdout

    def wait_for(self, *command: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.run(*command)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def start(self, log: Path, module: str, *flags: str) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command(sys.executable, "-m", module, *flags),
                stdout=out, stderr=out, env=without_ours(),
            )  # fmt: skip
        self._processes.append(process)
        return process

    def cut_off(self) -> None:
        _run("ip", "link", "set", self._link, "nomaster")

    def reconnect(self) -> None:
        _run("ip", "link", "set", self._link, "master", BRIDGE)

    def kill_ours(self) -> None:
        """kill -9 of all processes of MQ there."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def close(self) -> None:
        self.kill_ours()
        for pid in _pids_in(self.name):
            os.kill(pid, signal.SIGKILL)
        self._keeper.kill()
        self._keeper.wait()
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        subprocess.run(["ip", "link", "del", self._link], check=False, stderr=subprocess.DEVNULL)
        self.disk.unmount()


def _pids_in(namespace: str) -> Iterable[int]:
    command = ["ip", "netns", "pids", namespace]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return [int(each) for each in found.stdout.split()]


class GlusterHosts:
    """Two of them, and a volume that both have mounted."""

    def __init__(self, folder: Path, mount_options: Sequence[str] = ()) -> None:
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        self.hosts: list[GlusterHost] = []
        try:
            for number in (1, 2):
                self.hosts.append(GlusterHost(number, folder))
            self._make_volume(mount_options)
        except BaseException:
            self.close()
            raise

    def _make_volume(self, mount_options: Sequence[str]) -> None:
        first, second = self.hosts
        gluster = ("gluster", "--mode=script")
        for host in self.hosts:
            host.wait_for(*gluster, "peer", "status")
        first.run(*gluster, "peer", "probe", second.address)
        bricks = [host.brick for host in self.hosts]
        first.wait_for(
            *gluster, "volume", "create", VOLUME, "replica", "2", *bricks, "force"
        )  # fmt: skip
        for name, value in _OPTIONS.items():
            first.run(*gluster, "volume", "set", VOLUME, name, value)
        first.run(*gluster, "volume", "start", VOLUME)
        for host in self.hosts:
            options = ["-o", ",".join(mount_options)] if mount_options else []
            source = f"{host.address}:/{VOLUME}"
            host.wait_for("mount", "-t", "glusterfs", *options, source, str(host.mount))
            host.wait_for("mountpoint", str(host.mount))

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)
