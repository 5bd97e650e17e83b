"""python -m tests.soak.run [--minutes 10] [--seed SEED] [FOLDER]

Runs below FOLDER, on an ext4 in a file if this is root and else where it is. Exit code 1, and the
seed that repeats what happens to the processes, if a promise was broken.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from tests.crash.load import LoadClient, client_at
from tests.soak.checker import SoakViolation, judge
from tests.soak.clients import QUEUE, token_in
from tests.soak.history import Given, read_history
from tests.soak.rig import HOUR_SECONDS, Sample, SoakClients, SoakRig

_PAUSE_SECONDS = (0.2, 3.0)
"""Between two faults."""

_QUIET_PART = 1 / 3
"""For that part of the run, its last, the server is not killed: its memory and its descriptors are
watched."""

_SETTLED_SECONDS = 120
_MAX_GROWTH = 1.05
_SAMPLE_SECONDS = 5
_MAX_MORE_DESCRIPTORS = 16
_LAST_HOURS = 3
_DRAIN_SECONDS = 60
_LONG_SECONDS = 100_000


class SoakOutcome(NamedTuple):
    """`growth` is that of the resident memory once it had settled, None if the run was too short
    to tell; `more_descriptors` are those that were left when the clients had gone."""

    requests: int
    answered: Counter[str]
    struck: Counter[str]
    violations: list[SoakViolation]
    growth: float | None
    more_descriptors: int
    set_aside: list[str]

    def failures(self) -> list[str]:
        found = [f"{kind}: {message_id}, {why}" for kind, message_id, why in self.violations]
        found += [f"set aside: {name}" for name in self.set_aside]
        if self.growth is not None and self.growth > _MAX_GROWTH:
            found.append(f"the server's memory grew to {self.growth:.2f} of what it was")
        if self.more_descriptors > _MAX_MORE_DESCRIPTORS:
            found.append(f"the server has {self.more_descriptors} more descriptors than before")
        return found


def soak(root: Path, folder: Path, seed: str, seconds: float, workers: int = 24) -> SoakOutcome:
    """One run on `root`; its history and logs go to `folder`."""
    rig = SoakRig(root, folder, random.Random(seed))
    try:
        rig.start()
        asyncio.run(_make_queue(rig.port))
        before = rig.sample()
        clients = SoakClients(rig, seed, workers)
        try:
            samples = _go_wrong(rig, random.Random(f"{seed}/pauses"), seconds)
            clients.stop()
        finally:
            clients.kill()
        rig.set_clock(_LAST_HOURS * HOUR_SECONDS)
        after = rig.sample()
        left = asyncio.run(_drain(rig.port))
        events = list(read_history(rig.history))
        set_aside = sorted(path.name for path in (root / "corrupt").glob("*"))
        return SoakOutcome(
            len(events), Counter(each.kind for each in events if each.succeeded), rig.struck,
            judge(events, left), _growth(samples),
            after.descriptors - before.descriptors, set_aside,
        )  # fmt: skip
    finally:
        rig.stop()


def _go_wrong(rig: SoakRig, source: random.Random, seconds: float) -> list[tuple[float, Sample]]:
    """Samples of the server that lives to the end, each with its age."""
    started = time.monotonic()
    samples: list[tuple[float, Sample]] = []
    next_sample = quiet_since = started + seconds * (1 - _QUIET_PART)
    while (now := time.monotonic()) < started + seconds:
        rig.strike(may_kill_server=now < quiet_since)
        time.sleep(source.uniform(*_PAUSE_SECONDS))
        if time.monotonic() >= next_sample:
            samples.append((time.monotonic() - quiet_since, rig.sample()))
            next_sample = time.monotonic() + _SAMPLE_SECONDS
    return samples


def _growth(samples: list[tuple[float, Sample]]) -> float | None:
    settled = [sample.resident_kib for age, sample in samples if age >= _SETTLED_SECONDS]
    return max(settled) / settled[0] if len(settled) > 1 else None


async def _make_queue(port: int) -> None:
    async with client_at(port) as client:
        assert (await client.request("PUT", f"/{QUEUE}")).status == 201


async def _drain(port: int) -> list[Given]:
    """All that is there once every lease and every delay is over."""
    left: list[Given] = []
    async with client_at(port) as client:
        deadline = time.monotonic() + _DRAIN_SECONDS
        while True:
            found = await _take_all(client)
            left += found
            info = json.loads((await client.request("GET", f"/{QUEUE}")).body)
            if not (found or info["ready"] or info["delayed"] or info["leased"] != len(left)):
                return left
            if found:
                deadline = time.monotonic() + _DRAIN_SECONDS
            elif time.monotonic() > deadline:
                raise RuntimeError(f"not all of it comes: {info}, {len(left)} came")
            else:
                await asyncio.sleep(0.1)


async def _take_all(client: LoadClient) -> list[Given]:
    answer = await client.request("GET", f"/{QUEUE}/messages?max=500&visibility={_LONG_SECONDS}")
    return [_given_in(json.loads(line)) for line in answer.body.splitlines()]


def _given_in(line: dict[str, Any]) -> Given:
    text = line.get("body")
    body = base64.b64decode(line["body_base64"]) if text is None else text.encode()
    return Given(line["id"], token_in(body), f'"{line["lease"]}"')


@contextmanager
def disk_below(folder: Path, megabytes: int = 256) -> Iterator[Path]:
    """An ext4 with a journal in a file; the folder itself without root or e2fsprogs."""
    below = Path(tempfile.mkdtemp(prefix="mq-soak-", dir=folder))
    image, mount = below / "ext4.img", below / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    is_mounted = shutil.which("mkfs.ext4") is not None and all(
        subprocess.run(command, check=False, capture_output=True).returncode == 0
        for command in (
            ["mkfs.ext4", "-q", str(image)],
            ["mount", "-o", "loop", str(image), str(mount)],
        )
    )
    try:
        yield mount
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(mount)], check=True)
        shutil.rmtree(below, ignore_errors=True)


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
        outcome = soak(disk / "root", Path(logs), seed, 60 * minutes)
        failures = outcome.failures()
        if keep is not None:
            shutil.copytree(logs, keep, dirs_exist_ok=True)
    print(f"{outcome.requests} requests: {dict(outcome.answered)} carried out")
    print(f"went wrong: {dict(outcome.struck)}")
    print(f"memory: {outcome.growth}, descriptors: {outcome.more_descriptors:+d}")
    print(f"{len(failures)} violations")
    for failure in failures[:50]:
        print(f"  {failure}")
    if failures:
        print(f"repeat it with --seed {seed}")
        sys.exit(1)


if __name__ == "__main__":
    main()
