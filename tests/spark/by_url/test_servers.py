"""What servers answer that cannot go on names the option that may help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Never

import pytest

from mq.client import (
    Client,
    ClientError,
    Forbidden,
    NoAnswer,
    Problem,
    QueueNotFound,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from mq.client.retries import TOKEN_SECONDS
from mq.config import CLIENT_BACKOFF_SECONDS
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.options.addresses import Addresses
from pyspark_mq.options.option_values import BadOption
from tests.support.played import PlayedClock
from tests.support.processes import Server
from tests.support.token_files import make_token_file

FIRST_PAUSE = CLIENT_BACKOFF_SECONDS[0]
NEW_TOKEN = "worker-9cRt4Wq7nzB2mLx5VhJdKs"
NOBODY = ("http://127.0.0.1:1", "http://127.0.0.1:2")


def test_servers_that_cannot_be_reached_name_the_url_and_the_options() -> None:
    with (
        ServerChoice(Addresses(NOBODY, retry_seconds=0.1)) as servers,
        pytest.raises(NoAnswer) as raised,
    ):
        servers.counts("orders")

    said = str(raised.value)
    assert "http://127.0.0.1:2 does not answer: " in said
    assert "option url: start mq there, or correct the address; option retrySeconds:" in said


@pytest.mark.parametrize(
    ("error", "option"),
    [
        (Unauthorized("401"), "tokenFile"),
        (Forbidden("403"), "tokenFile"),
        (UnexpectedAnswer("the answer is HTML"), "url"),
        (UnexpectedAnswer("the certificate of https://a is not trusted"), "caFile"),
    ],
)
def test_a_refusal_names_its_option(error: ClientError, option: str) -> None:
    def refused(_: Client) -> Never:
        raise error

    with (
        ServerChoice(Addresses(NOBODY, retry_seconds=0.1)) as servers,
        pytest.raises(type(error), match=rf"; option {option}: "),
    ):
        servers.ask(refused)


def test_a_request_waits_for_a_token_whose_file_is_just_being_written(
    start_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(f"--token-file={make_token_file(tmp_path, f'worker read {NEW_TOKEN}')}")
    token = tmp_path / "token"
    token.write_text(NEW_TOKEN[::-1])
    addresses = Addresses((server.url,), str(token))

    def write_new(_: float) -> None:
        token.write_text(NEW_TOKEN)

    with ServerChoice(addresses) as servers:
        token.write_text("")
        monkeypatch.setattr("pyspark_mq.by_url.servers.time.sleep", write_new)
        with pytest.raises(QueueNotFound):
            servers.counts("orders")


def test_a_token_that_stays_refused_is_said_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = PlayedClock()

    def sleep(seconds: float) -> None:
        clock.now += seconds

    played = SimpleNamespace(monotonic=clock, sleep=sleep)
    monkeypatch.setattr("pyspark_mq.by_url.servers.time", played)

    def refused(_: Client) -> Never:
        raise Unauthorized("401")

    with ServerChoice(Addresses(NOBODY)) as servers, pytest.raises(Unauthorized, match="tokenFile"):
        servers.ask(refused)
    assert TOKEN_SECONDS <= clock.now - 1000 <= 3 * TOKEN_SECONDS


def test_a_server_that_has_answered_is_asked_first_from_then_on() -> None:
    asked = []

    def answer(mq: Client) -> str:
        asked.append(mq)
        if len(asked) == 1:
            raise NoAnswer("gone")
        return "there"

    with ServerChoice(Addresses(NOBODY, retry_seconds=5)) as servers:
        assert [servers.ask(answer), servers.ask(answer)] == ["there", "there"]

    assert asked[0] is not asked[1]
    assert asked[1] is asked[2]


def unavailable(seconds: float | None) -> Unavailable:
    problem = Problem("urn:mq:problem:unavailable", "Not now", 503, "the disk is full")
    return Unavailable("the disk is full", problem, seconds)


@pytest.mark.parametrize(
    ("failures", "pauses"),
    [
        ([unavailable(7.0), unavailable(3.0)], [3.0]),
        ([unavailable(7.0), NoAnswer("gone")], [FIRST_PAUSE]),
        (
            [unavailable(None), unavailable(7.0)] * 2,
            [CLIENT_BACKOFF_SECONDS[0] * n for n in (1, 2)],
        ),
        ([unavailable(60.0), unavailable(90.0)], None),
    ],
)
def test_the_pause_is_no_shorter_than_one_of_them_asks_for(
    failures: list[ClientError], pauses: list[float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, slept = [*failures], list[float]()
    monkeypatch.setattr("pyspark_mq.by_url.servers.time.sleep", slept.append)

    def answer(_: Client) -> str:
        if left:
            raise left.pop(0)
        return "there"

    with ServerChoice(Addresses(NOBODY, retry_seconds=30)) as servers:
        if pauses is None:
            with pytest.raises(Unavailable):
                servers.ask(answer)
            assert slept == []
        else:
            assert servers.ask(answer) == "there"
            assert slept == pauses


@pytest.mark.parametrize(
    "error", [QueueNotFound("there is no queue orders"), Unauthorized("401"), NoAnswer("gone")]
)
def test_of_several_addresses_the_one_that_has_refused_is_named(error: ClientError) -> None:
    def refused(_: Client) -> Never:
        raise error

    with (
        ServerChoice(Addresses(NOBODY[:1], retry_seconds=0.1)) as servers,
        pytest.raises(type(error), match=rf"^{NOBODY[0]}: {error}"),
    ):
        servers.ask(refused)


@pytest.mark.parametrize("files", [("/nowhere/token", None), (None, "/nowhere/ca")])
def test_a_file_that_is_not_there_names_the_options(files: tuple[str | None, str | None]) -> None:
    addresses = Addresses(("https://127.0.0.1:1",), *files)

    with pytest.raises(BadOption, match=r"option tokenFile or caFile: .*No such file"):
        ServerChoice(addresses)
