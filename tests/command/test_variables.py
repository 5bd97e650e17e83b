"""A misspelled variable is told of; those of others are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.command.variables import FLAG_VARIABLES, warn_of_misspelled
from mq.daemon.cli import mq
from mq_mover.cli import mq_mover
from mq_reaper.cli import mq_reaper
from mq_sqs.cli import mq_sqs
from tests.support.flags import options_of
from tests.support.mqctl import run_to_the_end
from tests.support.processes import Process, Server, wait_until

EVENT = "unknown environment variable"
NOWHERE = "/dev/null/root"


def test_the_variables_are_those_of_the_flags() -> None:
    of_flags = {
        option.envvar
        for command in (mq, mq_mover, mq_reaper, mq_sqs)
        for option in options_of(command)
    }

    assert of_flags - {None} == FLAG_VARIABLES


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MQ_VISIBILTY", "MQ_VISIBILITY"),
        ("MQ_SQS_VISIBILITY", "MQ_VISIBILITY"),
        ("MQ_ALLOWED_HOSTS", "MQ_ALLOWED_HOST"),
        ("MQ_MAX_BODY_BYTES", "MQ_MAX_BODY"),
        ("MQ_MAX_MESSAGES", "MQ_MAX_QUEUE_MESSAGES"),
    ],
)
def test_a_misspelled_variable_is_named_with_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    monkeypatch.setenv(name, "60")

    with capture_logs() as logged:
        warn_of_misspelled()
        warn_of_misspelled()

    assert logged == [
        {"event": EVENT, "log_level": "warning", "name": name, "nearest": nearest},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *sorted(FLAG_VARIABLES), "MQ_URL", "MQ_TOKEN", "MQ_MESSAGE_ID", "MQ_SERVICE_HOST",
        "MQ_SERVICE_PORT", "MQ_PORT_8080_TCP_ADDR", "MQ_VERSION", "MQ_HOST", "MQCTL_ROOT",
        "VISIBILTY",
    ],
)  # fmt: skip
def test_a_variable_that_is_known_or_of_others_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "60")

    with capture_logs() as logged:
        warn_of_misspelled()

    assert logged == []


def test_what_kubernetes_makes_for_a_service_is_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ_ADMIN_PORT", "tcp://10.0.0.11:8081")

    with capture_logs() as logged:
        warn_of_misspelled()

    assert logged == []


@pytest.mark.parametrize(
    "words",
    [
        ("mq", f"--root={NOWHERE}", "--port=0", "--admin=off"),
        ("mq_sqs", f"--root={NOWHERE}", "--port=0", "--admin=off"),
        ("mq_mover", f"--source={NOWHERE}/delay", f"--destination={NOWHERE}/queues"),
        ("mq_reaper", f"--source={NOWHERE}/remove"),
    ],
    ids=lambda words: str(words[0]),
)
def test_each_process_tells_of_it(words: tuple[str, ...]) -> None:
    done = run_to_the_end(*words, MQ_VISIBILTY="60")

    assert f'event="{EVENT}" name=MQ_VISIBILTY nearest=MQ_VISIBILITY' in done.err


def test_the_children_of_standalone_do_not_say_it_again(
    tmp_path: Path, processes: list[Process]
) -> None:
    flags = ("--standalone", "--sqs-port=0")
    server = Server(tmp_path / "root", *flags, log=tmp_path / "log", MQ_VISIBILTY="60")
    processes.append(server)

    children = ("mq-mover", "mq-reaper", "mq-sqs")
    wait_until(lambda: all(f"process={each} " in server.log() for each in children), 100)

    assert server.log().count(EVENT) == 1
