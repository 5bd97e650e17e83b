"""python -m tests.soak.run [--minutes 10] [--seed SEED] [FOLDER]

Runs below FOLDER, on an ext4 in a file if this is root and else where it is. Exit code 1, and the
seed that repeats what happens to the processes, if a promise was broken.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from tests.crash.load import LoadClient, client_at
from tests.soak.bodies import (
    DEAD_LETTERS,
    HANDED,
    ORDERED,
    PROMPT,
    QUEUES,
    READERS,
    SETTINGS,
    STALL,
    TTL,
    given_from,
)
from tests.soak.checker import SoakViolation, judge
from tests.soak.growth import Growth, Sample, growth_of
from tests.soak.history import Event, read_history
from tests.soak.rig import (
    GATEWAY,
    HOUR_SECONDS,
    KEEP_SECONDS,
    MOVER,
    OTHER,
    REAPER,
    SERVER,
    SoakClients,
    SoakRig,
)

_PAUSE_SECONDS = (0.2, 3.0)
"""Between two faults."""

_SETTLED_SECONDS = 120
_QUIET_PART = 0.5
"""For that part of the run, its last, no process is killed: their memory and their descriptors are
watched. A run that is too short for them to settle has no such part."""

_SAMPLE_SECONDS = 5

_BEGUN_BYTES = 20_000
"""Of the history: a hundred requests and more."""

_LAST_HOURS = 3
_DRAIN_SECONDS = 60
_LONG_SECONDS = 100_000.0
_DISK_MEGABYTES = 1024
MKFS_OPTIONS = ("-I", "256", "-N", "400000", "-m", "0")
"""Inodes that have room for times far ahead, which `preload.c` marks stamps with; and many. No room
is kept for root, whom a full disk would not stop otherwise."""

Growths = dict[str, Growth]
"""By process; empty if the run was too short to tell."""


class SoakOutcome(NamedTuple):
    """`messages` is how many were published. `growths` is what each process took once it had
    settled; empty if the run was too short to tell."""

    messages: int
    answered: Counter[str]
    struck: Counter[str]
    violations: list[SoakViolation]
    growths: Growths
    odd: list[str]

    def failures(self) -> list[str]:
        found = [f"{kind}: {message_id}, {why}" for kind, message_id, why in self.violations]
        found += self.odd
        for command, growth in self.growths.items():
            found += growth.failures(command)
        return found


def soak(
    root: Path,
    folder: Path,
    seed: str,
    seconds: float,
    *,
    workers: int = 24,
    pause_seconds: tuple[float, float] = _PAUSE_SECONDS,
) -> SoakOutcome:
    """One run on `root`; its history and logs go to `folder`."""
    pauses = random.Random(f"{seed}/pauses")
    rig = SoakRig(root, folder, random.Random(seed))
    try:
        rig.start()
        asyncio.run(_make_queues(rig.port))
        clients = SoakClients(rig, seed, workers)
        try:
            _wait_for_load(rig.history)
            growths = _go_wrong(rig, lambda: pauses.uniform(*pause_seconds), seconds)
            clients.stop()
        finally:
            clients.kill()
        rig.set_clock(_LAST_HOURS * HOUR_SECONDS)
        asyncio.run(_drain(rig))
        odd = [*rig.odd_ends, *_set_aside(root), *_defects_in(folder)]
    finally:
        rig.stop()
    events = list(read_history(rig.history))
    return SoakOutcome(
        sum(len(each.given) for each in events if each.kind == "publish" and each.succeeded),
        _answered(events), rig.struck,
        judge(
            events, ORDERED, KEEP_SECONDS, dead_letters=DEAD_LETTERS, prompt=PROMPT,
            copied=(*READERS, *HANDED), ttl=TTL,
        ), growths, odd,
    )  # fmt: skip


def _answered(events: list[Event]) -> Counter[str]:
    return Counter(each.kind for each in events if each.succeeded)


def _set_aside(root: Path) -> list[str]:
    return [f"set aside: {path.name}" for path in sorted((root / "corrupt").glob("*"))]


def _defects_in(folder: Path) -> list[str]:
    return [
        f"{log.name}: {line}"
        for log in sorted(folder.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if "Traceback" in line or "event=defect" in line
    ]


def _wait_for_load(history: Path) -> None:
    """Let the clients begin before anything goes wrong, however long their start takes."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    while not history.exists() or history.stat().st_size < _BEGUN_BYTES:
        if time.monotonic() > deadline:
            raise RuntimeError("the clients do not begin")
        time.sleep(0.01)


def _go_wrong(rig: SoakRig, pause: Callable[[], float], seconds: float) -> Growths:
    started = time.monotonic()
    samples: dict[str, list[Sample]] = defaultdict(list)
    quiet_seconds = seconds * _QUIET_PART
    if quiet_seconds < _SETTLED_SECONDS:
        quiet_seconds = 0
    next_sample = quiet_since = started + seconds - quiet_seconds
    while (now := time.monotonic()) < started + seconds:
        rig.strike(may_kill=now < quiet_since)
        time.sleep(pause())
        if time.monotonic() >= next_sample:
            for command in (SERVER, OTHER, GATEWAY, MOVER, REAPER):
                samples[command].append(rig.sample(command))
            next_sample = time.monotonic() + _SAMPLE_SECONDS
    settled_at = quiet_since + _SETTLED_SECONDS
    found = {command: growth_of(each, settled_at) for command, each in samples.items()}
    return {command: growth for command, growth in found.items() if growth is not None}


async def _make_queues(port: int) -> None:
    async with client_at(port) as client:
        for queue in QUEUES:
            target = f"/{queue}?{SETTINGS.get(queue, '')}"
            assert (await client.request("PUT", target)).status == 201


async def _drain(rig: SoakRig) -> None:
    """Take all that is there once every lease and every delay is over, and note it."""
    taken = dict.fromkeys(QUEUES, 0)
    deadline = time.monotonic() + _DRAIN_SECONDS
    async with client_at(rig.port) as client:
        await client.request("PUT", f"/{STALL}?paused=&delay=")
        while True:
            before = sum(taken.values())
            for queue in QUEUES:
                taken[queue] += await _take_all(rig, client, queue)
            there = [await _what_is_there(client, queue, taken[queue]) for queue in QUEUES]
            if not any(there):
                return
            if sum(taken.values()) > before:
                deadline = time.monotonic() + _DRAIN_SECONDS
            elif time.monotonic() > deadline:
                raise RuntimeError(f"not all of it comes: {there}")
            await asyncio.sleep(0.1)


async def _take_all(rig: SoakRig, client: LoadClient, queue: str) -> int:
    """Take what is ready, and return how much that is."""
    taken = 0
    target = f"/{queue}/messages?max=1000&visibility={_LONG_SECONDS}"
    while True:
        event = Event("left", time.monotonic_ns(), 0, None, queue, _LONG_SECONDS)
        answer = await client.request("GET", target)
        event.ended, event.status = time.monotonic_ns(), answer.status
        if answer.status == 200:
            event.given = [given_from(queue, json.loads(line)) for line in answer.body.splitlines()]
        rig.note(event)
        if not event.given:
            return taken
        taken += len(event.given)


async def _what_is_there(client: LoadClient, queue: str, taken: int) -> str:
    """Empty if that is what was taken, and no more."""
    answer = await client.request("GET", f"/{queue}")
    if answer.status != 200:
        return f"{queue}: {answer.status}"
    info = json.loads(answer.body)
    is_drained = not info["ready"] and not info["delayed"] and info["leased"] == taken
    return "" if is_drained else f"{info}, {taken} came"


@contextmanager
def disk_below(folder: Path) -> Iterator[Path]:
    """An ext4 with a journal in a file; the folder itself without root or e2fsprogs."""
    below = Path(tempfile.mkdtemp(prefix="mq-soak-", dir=folder))
    image, mount = below / "ext4.img", below / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(_DISK_MEGABYTES << 20)
    is_mounted = shutil.which("mkfs.ext4") is not None and all(
        subprocess.run(command, check=False, capture_output=True).returncode == 0
        for command in (
            ["mkfs.ext4", "-q", *MKFS_OPTIONS, str(image)],
            ["mount", "-o", "loop", str(image), str(mount)],
        )
    )
    try:
        yield mount
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(mount)], check=True)
        shutil.rmtree(below, ignore_errors=True)


def _shown(growths: Growths) -> str:
    if not growths:
        return "not judged, because the run is too short: it takes five minutes"
    return ", ".join(
        f"{command} {memory:.3f} {more:+d}" for command, (memory, more) in growths.items()
    )


@click.command()
@click.argument("folder", default="/tmp", type=click.Path(path_type=Path, exists=True))
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--seed", default="", help="One that an earlier run has shown.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep history and logs there.")
def main(folder: Path, minutes: float, seed: str, keep: Path | None) -> None:
    """Everything that can go wrong, at random, under load."""
    seed = seed or secrets.token_hex(4)
    print(f"seed {seed}", flush=True)
    with disk_below(folder) as disk, tempfile.TemporaryDirectory() as logs:
        try:
            outcome = soak(disk / "root", Path(logs), seed, 60 * minutes)
        except BaseException:
            print(f"repeat it with --seed {seed}", flush=True)
            raise
        finally:
            if keep is not None:
                shutil.copytree(logs, keep, dirs_exist_ok=True)
    failures = outcome.failures()
    print(f"{outcome.messages} messages; requests carried out: {dict(outcome.answered)}")
    print(f"went wrong: {dict(outcome.struck)}")
    print(f"memory and descriptors: {_shown(outcome.growths)}")
    print(f"{len(failures)} violations")
    for failure in failures[:50]:
        print(f"  {failure}")
    if failures:
        print(f"repeat it with --seed {seed}")
        sys.exit(1)


if __name__ == "__main__":
    main()
