"""The value of one option, parsed: a name, a number, a size, one word of several. Each error is a
BadOption that names the option."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from mq.errors import InvalidName
from mq.names import parse_queue_name

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d{1,18})([kmg]?)b?", re.IGNORECASE)
_MAX_PARTITIONS = 10_000
_MAX_SECONDS = 9_999_999


class BadOption(ValueError):
    """An option that is missing, unknown or has a bad value."""


def parse_path(option: str, text: str) -> Path:
    if not os.path.isabs(text):
        raise BadOption(f"option {option}: {text!r} is not an absolute path; executors need one")
    return Path(text)


def parse_name(option: str, text: str) -> str:
    """Parse the name of a group or job. It follows the rules for queues, because it is a folder
    too."""
    try:
        return parse_queue_name(text)
    except InvalidName as error:
        raise BadOption(f"option {option}: {error}") from None


def parse_list(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    parts = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not parts:
        raise BadOption(f"option {option}: empty; it is a list of {', '.join(allowed)}")
    return tuple(dict.fromkeys(parse_choice(option, part, allowed) for part in parts))


def parse_choice(option: str, text: str, allowed: tuple[str, ...]) -> str:
    if text.lower() not in allowed:
        raise BadOption(f"option {option}: {text!r} is not one of {', '.join(allowed)}")
    return text.lower()


def parse_count(
    option: str, values: Mapping[str, str], most: int | None = _MAX_PARTITIONS
) -> int | None:
    text = values.get(option)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text) or not 0 < int(text) <= (most or int(text)):
        bound = f" up to {most}" if most else ""
        raise BadOption(f"option {option}: {text!r} is not a whole number from 1{bound}")
    return int(text)


def parse_size(option: str, values: Mapping[str, str]) -> int | None:
    text = values.get(option)
    if text is None:
        return None
    if (match := _SIZE.fullmatch(text)) is None or int(match[1]) == 0:
        raise BadOption(f"option {option}: {text!r} is not a number of bytes, like 65536 or 64m")
    return int(match[1]) * _UNITS[match[2].lower()]


def parse_seconds(
    option: str, values: Mapping[str, str], default: float, most: float = _MAX_SECONDS
) -> float:
    text = values.get(option)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,7}(\.\d{1,3})?", text) or not 0 < float(text) <= most:
        raise BadOption(
            f"option {option}: {text!r} is not a number of seconds above 0, up to {most}"
        )
    return float(text)
