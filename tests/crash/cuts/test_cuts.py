"""File systems cut off under load and mounted again, against the log of a client elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.crash.cuts.disks import OPTIONS_OF_EXT4, USUAL, WAYS, CutDisk, DiskOptions
from tests.crash.cuts.rig import CutLoad, Rig
from tests.support.figures import PrintFigures
from tests.support.stores import eventually

SHORT_CUTS, OPTION_CUTS, LONG_CUTS = 4, 16, 200
KINDS = pytest.mark.parametrize("kind", sorted(WAYS))

_HOST_MEGABYTES = 2000

MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(loop_mount: Callable[..., Path], tmp_path: Path) -> Iterator[MakeRig]:
    """`make_rig("ext4")` makes a disk that can be cut, and a client; all ends with the test."""
    made: list[Rig] = []

    def make(kind: str, *flags: str, module: str = "mq", options: DiskOptions = USUAL) -> Rig:
        host = loop_mount("xfs", _HOST_MEGABYTES)
        disk = CutDisk(kind, host, tmp_path / "cut", options)
        made.append(Rig(disk, CutLoad(tmp_path / "client.log"), tmp_path, *flags, module=module))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@KINDS
async def test_every_promise_outlives_a_cut(make_rig: MakeRig, kind: str) -> None:
    await _cut_again_and_again(make_rig(kind), kind, SHORT_CUTS)


async def test_every_promise_of_a_server_that_writes_out_on_xfs_outlives_a_cut(
    make_rig: MakeRig,
) -> None:
    await _cut_again_and_again(make_rig("xfs", "--peers=1"), "xfs", SHORT_CUTS)


@pytest.mark.crash_long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", OPTIONS_OF_EXT4.values(), ids=OPTIONS_OF_EXT4)
async def test_every_promise_outlives_cuts_with_other_options(
    make_rig: MakeRig, options: DiskOptions
) -> None:
    await _cut_again_and_again(make_rig("ext4", options=options), "ext4", OPTION_CUTS)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("peers", [0, 1])
@KINDS
async def test_every_promise_outlives_many_cuts(
    make_rig: MakeRig, kind: str, peers: int, print_figures: PrintFigures
) -> None:
    started = time.monotonic()
    rig = make_rig(kind, f"--peers={peers}")
    done = await _cut_again_and_again(rig, kind, LONG_CUTS)
    seconds = time.monotonic() - started
    ways = "; ".join(f"{count} {name}" for name, count in done.items())
    print_figures(
        "File systems cut off under load",
        f"{kind}, --peers={peers}: {LONG_CUTS} cuts ({ways}), {rig.ledger.answers} answers "
        f"checked, 0 violations, {seconds:.0f} s",
    )


async def _cut_again_and_again(rig: Rig, kind: str, count: int) -> Counter[str]:
    """Each cut goes on with what the one before has left; nothing is wrong after any."""
    done: Counter[str] = Counter()
    rig.start()
    await rig.drain()
    for name, cut in islice(cycle(WAYS[kind].items()), count):
        rig.cut(cut)
        done[name] += 1
        assert rig.violations() == [], f"cut {done.total()}, {name}"
        rig.start()
        await rig.drain()
    await _give_out_the_rest(rig)
    return done


async def _give_out_the_rest(rig: Rig) -> None:
    """Every lease ends. After that, everything was delivered that is not removed."""

    async def is_all_given_out() -> bool:
        await rig.drain()
        return not rig.ledger.must_be_there()

    await eventually(is_all_given_out)
    rig.stop()
    assert rig.violations() == []
    assert rig.ledger.answers > 0


@pytest.mark.parametrize("kind", ["ext4"])
async def test_server_that_syncs_nothing_is_seen(make_rig: MakeRig, kind: str) -> None:
    """One of some cuts shows it: the system may write everything by itself. The reaper is a process
    of its own, which syncs all before it unlinks, so it unlinks nothing here. Names of files that
    are empty may be there."""
    rig = make_rig(kind, "--keep=3600", module="tests.crash.cuts.unsynced")
    for _ in range(SHORT_CUTS):
        rig.start()
        await rig.drain()
        rig.cut(WAYS[kind]["shut down, nothing flushed"])
        if any(line.endswith(("is lost", "is torn")) for line in rig.violations()):
            return
    raise AssertionError("every cut left all that was answered")
