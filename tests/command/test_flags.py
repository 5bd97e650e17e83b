"""Flags, and the environment variables beside them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from mq.ctl.cli import mqctl
from mq.daemon.cli import mq
from mq_mover.cli import mq_mover
from mq_reaper.cli import mq_reaper
from pyspark_mq.pipeline.cli import mq_pipeline
from tests.support.processes import Process, Server, wait_until
from vsqs.cli import vsqs
from vsqs.pump import vsqspump
from vsqs.sink import vsqssink


def configuration(process: Process) -> dict[str, str]:
    """The first line of its log, once it is there."""
    wait_until(lambda: "event=configuration" in process.log(), 100)
    line = process.log().splitlines()[0]
    return dict(word.split("=", 1) for word in line.split())


def test_mover_reads_its_environment_and_flags_win(
    tmp_path: Path, processes: list[Process]
) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    environment = {
        "MQ_MOVER_SOURCE": str(tmp_path / "from"),
        "MQ_MOVER_DESTINATION": str(tmp_path / "to"),
        "MQ_MOVER_DELAY": "1.5",
        "MQ_MAX_RECEIVES": "7",
    }
    mover = Process("mq_mover", "--delay=2.5", log=tmp_path / "log", **environment)
    processes.append(mover)

    found = configuration(mover)

    assert found["source"] == str(tmp_path / "from")
    assert found["destination"] == str(tmp_path / "to")
    assert found["delay_seconds"] == "2.5"
    assert found["max_receives"] == "7"


def test_reaper_reads_its_environment_and_flags_win(
    tmp_path: Path, processes: list[Process]
) -> None:
    removed = tmp_path / "remove"
    removed.mkdir()
    environment = {"MQ_REAPER_SOURCE": str(removed), "MQ_KEEP": "5", "MQ_LOG_FORMAT": "json"}
    reaper = Process("mq_reaper", "--log-format=text", log=tmp_path / "log", **environment)
    processes.append(reaper)

    found = configuration(reaper)

    assert found["source"] == str(removed)
    assert found["keep_seconds"] == "5.0"


def test_standalone_hands_its_flags_to_its_children(
    tmp_path: Path, processes: list[Process]
) -> None:
    log = tmp_path / "log"
    server = Server(tmp_path / "root", "--standalone", "--keep=9", "--max-receives=3", log=log)
    processes.append(server)

    wait_until(lambda: server.log().count("event=configuration") == 3, 100)

    assert "process=mq-reaper event=configuration" in server.log()
    assert "keep_seconds=9.0" in server.log()
    assert server.log().count("max_receives=3") == 2


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (mq_reaper, ["--source="]),
        (mq_mover, ["--source=", "--destination=/tmp"]),
        (mq, ["--root="]),
        (mq, ["--socket="]),
        (mqctl, ["ls", "--root="]),
        (vsqs, ["size", ""]),
        (vsqspump, ["--dir=", "orders"]),
        (vsqssink, ["--dir=", "orders"]),
        (mq_pipeline, ["archive", "--root=/a", "--queue=orders", "--lake="]),
        (mq_pipeline, ["load", "--root=/a", "--to=orders", "--format=csv", "a.csv", ""]),
    ],
)
def test_an_empty_path_is_not_the_current_folder(command: click.Command, flags: list[str]) -> None:
    """A shell makes one of a variable that is not set, and a reaper would unlink what is there."""
    with pytest.raises(click.BadParameter, match="the path is empty"):
        command.main(flags, standalone_mode=False)


@pytest.mark.parametrize(
    ("command", "line", "read"),
    [
        (mq, "-workers=1 -peers=0 -root=/mnt/mq", {"workers": 1, "peers": 0, "root": "/mnt/mq"}),
        (mq, "-root /mnt/-root --port=1", {"root": "/mnt/-root", "port": 1}),
        (mq_mover, "-source=/a -destination=/b -delay=10", {"source": "/a", "delay": 10.0}),
        (mq_reaper, "-source=/mnt/mq/remove", {"source": "/mnt/mq/remove"}),
    ],
)
def test_one_dash_is_as_good_as_two(
    command: click.Command, line: str, read: dict[str, object]
) -> None:
    """So does softlayer/mq read its flags, and its file for supervisor writes them."""
    found = command.make_context(command.name, line.split()).params

    assert {name: str(found[name]) for name in read} == {k: str(v) for k, v in read.items()}
