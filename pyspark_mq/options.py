"""Options of the source `mq`: parsed once, each error names its option and the way out."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mq.config import CLAIM_MESSAGES
from mq.errors import InvalidName
from mq.names import DEAD_SUFFIX, QueueName, parse_queue_name

BATCH_READ = frozenset({"root", "queue", "states", "numPartitions", "mode"})
STREAM_READ = frozenset(
    {
        "root", "queue", "group", "maxMessagesPerTrigger", "maxBytesPerTrigger", "numPartitions",
        "commit", "mode", "takeover",
    }
)  # fmt: skip
READ = BATCH_READ | STREAM_READ
BATCH_WRITE = frozenset({"root", "queue", "txnAppId", "txnVersion"})
STREAM_WRITE = frozenset({"root", "queue", "checkpointLocation"})

STATES = ("ready", "leased", "delayed", "removed", "dead")
MODES = ("permissive", "failfast")
COMMITS = ("remove", "archive")

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d{1,18})([kmg]?)b?", re.IGNORECASE)
_PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,80}")
_MAX_PARTITIONS = 10_000


class BadOption(ValueError):
    """An option that is missing, unknown or has a bad value."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for. `queues` are names and patterns; `max_bytes` is None without a limit."""

    root: Path
    queues: tuple[str, ...] = ()
    group: str = "default"
    states: tuple[str, ...] = ("ready",)
    num_partitions: int = 1
    max_messages: int = CLAIM_MESSAGES
    max_bytes: int | None = None
    is_failfast: bool = False
    archives: bool = False
    takes_over: bool = False
    txn_app_id: str | None = None
    txn_version: int | None = None


def parse_options(given: Mapping[str, str], allowed: frozenset[str]) -> Options:
    """Raises BadOption. Names are compared without case, as Spark does."""
    known = {name.lower(): name for name in allowed}
    for name in given:
        if name.lower() not in known:
            raise _unknown_option(name, allowed)
    values = {known[name.lower()]: value for name, value in given.items()}
    if not values.get("root"):
        raise BadOption("option root: missing; name the folder that mq runs on, as /srv/mq")
    return Options(
        root=_parse_root(values["root"]),
        queues=_parse_queues(values.get("queue", "")),
        group=_parse_name("group", values.get("group", "default")),
        states=_parse_list("states", values.get("states", "ready"), STATES),
        num_partitions=_parse_count("numPartitions", values) or os.cpu_count() or 1,
        max_messages=_parse_count("maxMessagesPerTrigger", values, None) or CLAIM_MESSAGES,
        max_bytes=_parse_size("maxBytesPerTrigger", values),
        is_failfast=_parse_choice("mode", values.get("mode", MODES[0]), MODES) == "failfast",
        archives=_parse_choice("commit", values.get("commit", COMMITS[0]), COMMITS) == "archive",
        takes_over=_parse_choice("takeover", values.get("takeover", "false"), _BOOLEANS) == "true",
        txn_app_id=_parse_txn_app_id(values),
        txn_version=_parse_txn_version(values),
    )


def match_queues(patterns: tuple[str, ...], existing: list[str]) -> list[QueueName]:
    """The queues that are named or matched, in order. A pattern leaves out queues of dead letters
    unless it ends in `.dead` itself. Names that do not exist are passed on as they are."""
    found: list[QueueName] = []
    for pattern in patterns:
        if not is_pattern(pattern):
            names = [pattern]
        else:
            names = sorted(fnmatch.filter(existing, pattern))
            if not pattern.endswith(DEAD_SUFFIX):
                names = [name for name in names if not name.endswith(DEAD_SUFFIX)]
        found += [QueueName(name) for name in names if name not in found]
    return found


def is_pattern(name: str) -> bool:
    return any(letter in name for letter in "*?[")


_BOOLEANS = ("true", "false")


def _unknown_option(name: str, allowed: frozenset[str]) -> BadOption:
    everywhere = {each.lower(): each for each in READ | BATCH_WRITE | STREAM_WRITE}
    there = f"there are {', '.join(sorted(allowed))}"
    if name.lower() in everywhere:
        return BadOption(
            f"option {everywhere[name.lower()]}: not for this kind of read or write; {there}"
        )
    return BadOption(f"option {name}: unknown; {there}")


def _parse_root(text: str) -> Path:
    if not os.path.isabs(text):
        raise BadOption(f"option root: {text!r} is not an absolute path; executors need one")
    return Path(text)


def _parse_queues(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if is_pattern(name):
            if not _PATTERN.fullmatch(name):
                raise BadOption(f"option queue: {name!r} is no pattern of queue names")
            continue
        _parse_name("queue", name)
    return names


def _parse_name(option: str, text: str) -> str:
    """A group is named as a queue is, for the same reason: it is a folder."""
    try:
        return parse_queue_name(text)
    except InvalidName as error:
        raise BadOption(f"option {option}: {error}") from None


def _parse_list(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    parts = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not parts:
        raise BadOption(f"option {option}: empty; it is a list of {', '.join(allowed)}")
    return tuple(dict.fromkeys(_parse_choice(option, part, allowed) for part in parts))


def _parse_choice(option: str, text: str, allowed: tuple[str, ...]) -> str:
    if text.lower() not in allowed:
        raise BadOption(f"option {option}: {text!r} is none of {', '.join(allowed)}")
    return text.lower()


def _parse_count(option: str, values: Mapping[str, str], most: int | None = _MAX_PARTITIONS) -> Any:
    text = values.get(option)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text) or not 0 < int(text) <= (most or int(text)):
        bound = f" up to {most}" if most else ""
        raise BadOption(f"option {option}: {text!r} is not a whole number from 1{bound}")
    return int(text)


def _parse_size(option: str, values: Mapping[str, str]) -> int | None:
    text = values.get(option)
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise BadOption(f"option {option}: {text!r} is not a number of bytes, as 65536 or 64m")
    return int(match[1]) * _UNITS[match[2].lower()]


def _parse_txn_app_id(values: Mapping[str, str]) -> str | None:
    if ("txnAppId" in values) != ("txnVersion" in values):
        raise BadOption("options txnAppId and txnVersion: give both or none")
    text = values.get("txnAppId")
    return None if text is None else _parse_name("txnAppId", text)


def _parse_txn_version(values: Mapping[str, str]) -> int | None:
    text = values.get("txnVersion")
    if text is not None and not re.fullmatch(r"\d{1,18}", text):
        raise BadOption(f"option txnVersion: {text!r} is not a whole number from 0")
    return None if text is None else int(text)
