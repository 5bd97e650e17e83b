"""The options of the source `mq`, parsed once. Each error names its option and the way out."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mq.config import CLIENT_RETRY_SECONDS, MAX_VISIBILITY_SECONDS
from mq.names import is_fifo
from pyspark_mq.options.addresses import LEASE_SECONDS, Addresses
from pyspark_mq.options.option_values import (
    BadOption,
    parse_choice,
    parse_count,
    parse_list,
    parse_name,
    parse_path,
    parse_seconds,
    parse_size,
)
from pyspark_mq.options.queue_patterns import is_pattern

CLAIM_MESSAGES = 100_000
"""How many messages a batch has at most, unless the query sets another limit."""

IN, OUT = "in", "out"
"""The roots of a staging, one for each direction."""

PLACE = frozenset({"root", "url", "tokenFile", "caFile", "retrySeconds", "queue"})
BATCH_READ = PLACE | {"states", "numPartitions", "mode", "bodies"}
STREAM_READ = PLACE | {
    "staging", "visibilitySeconds", "group", "maxMessagesPerTrigger", "maxBytesPerTrigger",
    "numPartitions", "commit", "mode", "takeover",
}  # fmt: skip
READ = BATCH_READ | STREAM_READ
BATCH_WRITE = PLACE | {"staging", "txnAppId", "txnVersion"}
STREAM_WRITE = PLACE | {"staging", "checkpointLocation", "queryName"}
READ_ALONE = frozenset({"states", "group"})
"""Options that only reads have."""
BY_URL_ALONE = frozenset({"staging", "tokenFile", "caFile", "retrySeconds", "visibilitySeconds"})

STATES = ("ready", "leased", "delayed", "removed", "dead")
MODES = ("permissive", "failfast")
COMMITS = ("remove", "archive")
_BOOLEANS = ("true", "false")
_OF_SPARK = {"path": "load and save take no path, name the folder in the option root; ",
             "provider": "in place of CREATE TABLE use CREATE TEMPORARY VIEW; "}  # fmt: skip
"""Options that Spark adds by itself, each with what was meant."""

_PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,85}")

FIFO_REFUSED = (
    "{} is a FIFO queue: its messages are sent and received through mq-sqs, which knows their "
    "groups; a batch read shows what is in it"
)


@dataclass(frozen=True, slots=True)
class Options:
    """The options. `queues` are names and patterns; `max_bytes` is None without a limit.

    With `addresses` the queues are at their servers, and `root` is the staging of this direction.
    """

    root: Path
    queues: tuple[str, ...] = ()
    group: str = "default"
    states: tuple[str, ...] = ("ready",)
    num_partitions: int = 1
    max_messages: int = CLAIM_MESSAGES
    max_bytes: int | None = None
    is_failfast: bool = False
    has_bodies: bool = True
    archives: bool = False
    takes_over: bool = False
    txn_app_id: str | None = None
    txn_version: int | None = None
    addresses: Addresses | None = None


def parse_options(given: Mapping[str, str], allowed: frozenset[str]) -> Options:
    """Parse the options. Names are compared without case, as Spark does. Raises BadOption."""
    known = {name.lower(): name for name in allowed}
    for name in given:
        if name.lower() not in known:
            raise _unknown_option(name, allowed)
    values = {known[name.lower()]: value for name, value in given.items()}
    addresses = _parse_addresses(values, allowed)
    return Options(
        root=_parse_root(values) if addresses is None else _parse_staging(values, allowed),
        addresses=addresses,
        queues=_parse_queues(values, allowed),
        group=parse_name("group", values.get("group", "default")),
        states=parse_list("states", values.get("states", "ready"), STATES),
        num_partitions=parse_count("numPartitions", values) or os.cpu_count() or 1,
        max_messages=parse_count("maxMessagesPerTrigger", values, None) or CLAIM_MESSAGES,
        max_bytes=parse_size("maxBytesPerTrigger", values),
        is_failfast=parse_choice("mode", values.get("mode", MODES[0]), MODES) == "failfast",
        has_bodies=parse_choice("bodies", values.get("bodies", "true"), _BOOLEANS) == "true",
        archives=parse_choice("commit", values.get("commit", COMMITS[0]), COMMITS) == "archive",
        takes_over=parse_choice("takeover", values.get("takeover", "false"), _BOOLEANS) == "true",
        txn_app_id=_parse_txn_app_id(values),
        txn_version=_parse_txn_version(values),
    )


def _unknown_option(name: str, allowed: frozenset[str]) -> BadOption:
    everywhere = {each.lower(): each for each in READ | BATCH_WRITE | STREAM_WRITE}
    there = f"there are {', '.join(sorted(allowed))}"
    meant = difflib.get_close_matches(name.lower(), [each.lower() for each in allowed], n=1)
    if name.lower() in everywhere:
        return BadOption(
            f"option {everywhere[name.lower()]}: not for this kind of read or write; {there}"
        )
    hint = f"did you mean {everywhere[meant[0]]}? " if meant else _OF_SPARK.get(name.lower(), "")
    return BadOption(f"option {name}: unknown; {hint}{there}")


def _parse_root(values: Mapping[str, str]) -> Path:
    if not values.get("root"):
        raise BadOption(
            "option root: missing; name the folder that mq runs on, like /srv/mq, or give the "
            "option url with the address of a server, like http://127.0.0.1:8080"
        )
    return parse_path("root", values["root"])


def _parse_staging(values: Mapping[str, str], allowed: frozenset[str]) -> Path:
    """Return the root of one direction below the option `staging`. Only a batch read needs none."""
    text = values.get("staging")
    if text:
        return parse_path("staging", text) / (IN if allowed & READ_ALONE else OUT)
    if "staging" in allowed and not allowed >= BATCH_READ:
        raise BadOption(
            "option staging: missing; with url name a folder where messages are kept between the "
            "servers and Spark, like /var/lib/lake; driver and executors need it under one path, "
            "and a query needs it again when it is started again"
        )
    return Path(os.devnull)


def _parse_addresses(values: Mapping[str, str], allowed: frozenset[str]) -> Addresses | None:
    text = values.get("url")
    if text is None:
        for name in sorted(BY_URL_ALONE & values.keys()):
            raise BadOption(f"option {name}: it belongs to the option url, which is missing")
        return None
    if values.get("root"):
        raise BadOption("options root and url: give one of them")
    urls = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not urls:
        raise BadOption("option url: empty; it is a server's address, like http://127.0.0.1:8080")
    _require_addresses(urls)
    _require_url_forms(values, allowed)
    return Addresses(
        urls,
        values.get("tokenFile"),
        values.get("caFile"),
        parse_seconds("visibilitySeconds", values, LEASE_SECONDS, MAX_VISIBILITY_SECONDS),
        parse_seconds("retrySeconds", values, CLIENT_RETRY_SECONDS),
    )


def _require_addresses(urls: tuple[str, ...]) -> None:
    """Refuse what cannot be an address, before a staging is made that remembers it. Raises
    BadOption."""
    from mq.client.connection import parse_url

    for url in urls:
        try:
            parse_url(url, None, None)
        except ValueError as error:
            raise BadOption(f"option url: {error}") from None


def _require_url_forms(values: Mapping[str, str], allowed: frozenset[str]) -> None:
    """Refuse what the six endpoints do not offer. Raises BadOption."""
    queues = _parse_queues(values, allowed)
    if allowed & READ_ALONE and (not queues or any(map(is_pattern, queues))):
        raise BadOption(
            "option queue: with url name each queue, with commas between; a server does not list "
            "its queues, so there are no patterns"
        )
    if "removed" in parse_list("states", values.get("states", "ready"), STATES):
        raise BadOption("option states: servers do not show removed messages, so not with url")
    if "bodies" in values:
        raise BadOption("option bodies: it belongs to root; servers answer with bodies")
    if "numPartitions" in values and "group" not in allowed:
        raise BadOption("option numPartitions: with url a batch read has one task for each queue")


def _parse_queues(values: Mapping[str, str], allowed: frozenset[str]) -> tuple[str, ...]:
    names = tuple(part.strip() for part in values.get("queue", "").split(",") if part.strip())
    if not names and "queue" in values and "url" not in values and allowed & READ_ALONE:
        raise BadOption("option queue: empty; name queues, or leave it out to read all of them")
    for name in names:
        if is_pattern(name):
            if not _PATTERN.fullmatch(name):
                raise BadOption(f"option queue: {name!r} is not a pattern of queue names")
            continue
        parse_name("queue", name)
        if is_fifo(name) and "states" not in allowed:
            raise BadOption(f"option queue: {FIFO_REFUSED.format(name)}")
    return tuple(dict.fromkeys(names))


def _parse_txn_app_id(values: Mapping[str, str]) -> str | None:
    if ("txnAppId" in values) != ("txnVersion" in values):
        raise BadOption("options txnAppId and txnVersion: give both or none")
    text = values.get("txnAppId")
    return None if text is None else parse_name("txnAppId", text)


def _parse_txn_version(values: Mapping[str, str]) -> int | None:
    text = values.get("txnVersion")
    if text is not None and not re.fullmatch(r"\d{1,18}", text):
        raise BadOption(f"option txnVersion: {text!r} is not a whole number from 0")
    return None if text is None else int(text)
