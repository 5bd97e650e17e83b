"""Options: what is not known or has no meaning is an error that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyspark_mq.options.addresses import Addresses
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.options.options import (
    BATCH_READ,
    BATCH_WRITE,
    BY_URL_ALONE,
    READ,
    STREAM_READ,
    STREAM_WRITE,
    Options,
    parse_options,
)

ROOT = {"root": "/srv/mq"}


def test_only_the_root_is_required() -> None:
    assert parse_options(ROOT, READ) == Options(Path("/srv/mq"), num_partitions=os.cpu_count() or 1)


def test_every_option_of_a_stream_is_taken_whatever_its_case() -> None:
    given = {
        "root": "/srv/mq", "QUEUE": "orders, returns", "Group": "lake", "commit": "archive",
        "maxmessagespertrigger": "10", "maxBytesPerTrigger": "64m", "numPartitions": "3",
        "mode": "FAILFAST", "takeover": "true",
    }  # fmt: skip

    assert parse_options(given, STREAM_READ) == Options(
        Path("/srv/mq"), queues=("orders", "returns"), group="lake", archives=True, max_messages=10,
        max_bytes=64 * 2**20, num_partitions=3, is_failfast=True, takes_over=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("root", "relative/path"), ("root", ""),
        ("queue", "../orders"), ("queue", "orders,.hidden"), ("queue", "a/*"),
        ("queue", ""), ("queue", " , "),
        ("group", ""), ("group", "../lake"), ("group", "a/b"),
        ("states", "ready,lost"), ("states", ","),
        ("numPartitions", "0"), ("numPartitions", "-1"), ("numPartitions", "two"),
        ("numPartitions", "10001"),
        ("maxMessagesPerTrigger", "0"), ("maxMessagesPerTrigger", "1.5"),
        ("maxBytesPerTrigger", "0"), ("maxBytesPerTrigger", "many"), ("maxBytesPerTrigger", "1t"),
        ("commit", "delete"), ("mode", "dropmalformed"), ("takeover", "yes"),
    ],
)  # fmt: skip
def test_a_bad_value_is_an_error_that_names_the_option(name: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"option {name}:"):
        parse_options(ROOT | {name: value}, READ)


@pytest.mark.parametrize("kind", [BATCH_READ, STREAM_READ, BATCH_WRITE, STREAM_WRITE])
def test_an_unknown_option_is_an_error_that_lists_what_there_is(kind: frozenset[str]) -> None:
    with pytest.raises(BadOption, match="option quue: unknown; did you mean queue") as caught:
        parse_options(ROOT | {"quue": "orders"}, kind)

    assert all(name in str(caught.value) for name in kind)
    with pytest.raises(BadOption, match="option xyz: unknown; there are "):
        parse_options(ROOT | {"xyz": "orders"}, kind)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("path", "name the folder in the option root"), ("provider", "use CREATE TEMPORARY VIEW")],
)
def test_an_option_that_spark_adds_says_what_was_meant(name: str, hint: str) -> None:
    with pytest.raises(BadOption, match=f"option {name}: unknown; .*{hint}; there are "):
        parse_options(ROOT | {name: "x"}, READ)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("maxMessagesPerTrigger", BATCH_READ), ("states", STREAM_READ), ("txnAppId", STREAM_WRITE),
        ("group", BATCH_WRITE),
    ],
)  # fmt: skip
def test_an_option_of_another_kind_of_read_or_write_is_refused(
    name: str, kind: frozenset[str]
) -> None:
    with pytest.raises(BadOption, match=f"option {name}: not for this kind"):
        parse_options(ROOT | {name.lower(): "1"}, kind)


@pytest.mark.parametrize("given", [{"txnAppId": "job"}, {"txnVersion": "1"}])
def test_a_transaction_needs_both_its_options(given: dict[str, str]) -> None:
    with pytest.raises(BadOption, match="txnAppId and txnVersion: give both or none"):
        parse_options(ROOT | given, BATCH_WRITE)


@pytest.mark.parametrize("kind", [STREAM_READ, BATCH_WRITE, STREAM_WRITE])
def test_fifo_queues_are_only_looked_at(kind: frozenset[str]) -> None:
    given = {"root": "/srv/mq", "queue": "orders.fifo"}

    assert parse_options(given, BATCH_READ).queues == ("orders.fifo",)
    with pytest.raises(BadOption, match=r"option queue: orders\.fifo is a FIFO queue: .* mq-sqs"):
        parse_options(given, kind)


URL = {"url": "http://one:8080, http://two:8080", "queue": "orders", "staging": "/srv/staging"}


def test_by_url_each_direction_has_a_root_of_its_own_below_the_staging() -> None:
    read, write = parse_options(URL, STREAM_READ), parse_options(URL, BATCH_WRITE)

    assert (read.root, write.root) == (Path("/srv/staging/in"), Path("/srv/staging/out"))
    assert read.addresses == Addresses(("http://one:8080", "http://two:8080"))


@pytest.mark.parametrize("place", [URL, ROOT])
def test_a_queue_that_is_named_twice_is_read_once(place: dict[str, str]) -> None:
    given = place | {"queue": "orders, returns,orders"}

    assert parse_options(given, STREAM_READ).queues == ("orders", "returns")


def test_by_url_a_look_needs_no_staging_and_everything_else_does() -> None:
    without = {name: value for name, value in URL.items() if name != "staging"}

    assert parse_options(without, BATCH_READ).addresses is not None
    for kind in (STREAM_READ, BATCH_WRITE, STREAM_WRITE):
        with pytest.raises(BadOption, match="option staging: missing"):
            parse_options(without, kind)


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"root": "/srv/mq"}, "options root and url: give one of them"),
        ({"url": " , "}, "option url: empty"),
        ({"url": "queues:8080"}, "option url: 'queues:8080' is not the address of a server"),
        ({"queue": "order*"}, "option queue: with url name each queue"),
        ({"queue": ""}, "option queue: with url name each queue"),
        ({"staging": "here"}, "option staging: 'here' is not an absolute path"),
        ({"visibilitySeconds": "0"}, "option visibilitySeconds: '0' is not a number of seconds"),
        ({"visibilitySeconds": "2592000.001"}, r"option visibilitySeconds: .* up to 2592000$"),
        ({"retrySeconds": "long"}, "option retrySeconds: 'long' is not a number of seconds"),
    ],
)
def test_by_url_a_bad_value_is_named(given: dict[str, str], detail: str) -> None:
    with pytest.raises(BadOption, match=detail):
        parse_options(URL | given, STREAM_READ)


def test_by_url_what_servers_do_not_show_is_refused() -> None:
    without = {name: value for name, value in URL.items() if name != "staging"}

    shown = parse_options(without | {"states": "Ready, leased,delayed,dead"}, BATCH_READ)
    assert shown.states == ("ready", "leased", "delayed", "dead")
    with pytest.raises(BadOption, match=r"option states: .* not with url"):
        parse_options(without | {"states": "ready,removed"}, BATCH_READ)
    with pytest.raises(BadOption, match="option states: 'lost' is not one of"):
        parse_options(without | {"states": "lost"}, BATCH_READ)
    with pytest.raises(BadOption, match="option bodies: it belongs to root"):
        parse_options(without | {"bodies": "false"}, BATCH_READ)
    with pytest.raises(BadOption, match=r"option numPartitions: .* one task for each queue"):
        parse_options(without | {"numPartitions": "2"}, BATCH_READ)
    assert parse_options(URL | {"numPartitions": "2"}, STREAM_READ).num_partitions == 2


@pytest.mark.parametrize("name", sorted(BY_URL_ALONE))
def test_an_option_of_a_url_is_refused_with_a_root(name: str) -> None:
    with pytest.raises(BadOption, match=f"option {name}: it belongs to the option url"):
        parse_options(ROOT | {name: "1"}, READ)
