"""What the documents allow, written once more: each function says whether a text is right.

Nothing of the product is called here. Names are from docs/lifecycle.md, settings, parameters,
headers and lines from docs/protocol.md, tokens from docs/access.md, SQS from docs/sqs.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from string import ascii_letters, ascii_lowercase, digits
from typing import Any

from tests.crash.fuzz.json_text import NotJson, Pairs, parse

_ALPHANUMERIC = set(ascii_letters + digits)
_IN_QUEUE = _ALPHANUMERIC | set("_.-")
_HEADER_NAME = set(ascii_lowercase + digits + "!#$%&'*+.^_`|~-")
_PRINTABLE = set(map(chr, range(0x20, 0x7F)))
_OTHER_PROPERTIES = {"traceparent", "tracestate", "baggage", "content-encoding", "content-language"}
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_MAX_DELAY, _MAX_VISIBILITY, _MAX_TTL = 31_536_000, 2_592_000, 315_360_000
_BLANK = " \t\r"


# Names


def is_queue(text: str) -> bool:
    ending = next((each for each in (".dead", ".fifo") if text.endswith(each)), "")
    return _is_short_queue(text) or (bool(ending) and _is_short_queue(text.removesuffix(ending)))


def _is_short_queue(text: str) -> bool:
    return 1 <= len(text) <= 80 and text[0] in _ALPHANUMERIC and _IN_QUEUE.issuperset(text)


def is_id(text: str) -> bool:
    return 1 <= len(text) <= 64 and (_ALPHANUMERIC | {"-"}).issuperset(text)


def file_name_parts(text: str) -> tuple[str, str] | None:
    queue, colon, message_id = text.partition(":")
    return (queue, message_id) if colon and is_queue(queue) and is_id(message_id) else None


def is_number(text: str) -> bool:
    """One of Spark's, whose name leads back to it."""
    is_whole = 1 <= len(text) <= 19 and set(digits).issuperset(text)
    return is_whole and (text == "0" or text[0] != "0")


def is_attempt(text: str) -> bool:
    is_word = bool(text) and text[0] in _ALPHANUMERIC and _IN_QUEUE.issuperset(text)
    return is_word and not text.endswith(".open")


# Parameters and headers


def is_seconds(text: str, most: int, *, above_zero: bool = False) -> bool:
    whole, point, part = text.partition(".")
    if not 1 <= len(whole) <= 12 or len(part) > 9 or (point and not part):
        return False
    if not set(digits).issuperset(whole + part):
        return False
    seconds = float(text)
    return (seconds > 0 if above_zero else seconds >= 0) and seconds <= most


def is_count(text: str, least: int, most: int) -> bool:
    return 1 <= len(text) <= 9 and set(digits).issuperset(text) and least <= int(text) <= most


def is_content_type(text: str) -> bool:
    return len(text) <= 255 and _PRINTABLE.issuperset(text)


def are_properties(found: Mapping[str, str]) -> bool:
    """Names are in lower case here."""
    return len(found) <= 64 and all(
        is_property(name) and is_property_value(value) for name, value in found.items()
    ) and sum(len(name) + len(value) for name, value in found.items()) <= 8192  # fmt: skip


def is_property(name: str) -> bool:
    if name in _OTHER_PROPERTIES:
        return True
    rest = next((name[len(each) :] for each in ("ce-", "x-meta-") if name.startswith(each)), "")
    return bool(rest) and _HEADER_NAME.issuperset(rest)


def is_property_value(value: str) -> bool:
    return _PRINTABLE.issuperset(value) and value == value.strip(" ")


def leases_in(text: str) -> set[int] | None:
    """The leases in If-Match, of which none is *. None if it is wrong."""
    if not re.fullmatch(r'[ \t,]*(?:W/)?"[^"]*"(?:[ \t]*,[ \t,]*(?:W/)?"[^"]*")*[ \t,]*', text):
        return None
    tags = re.findall(r'(W/)?"([^"]*)"', text)
    is_lease = re.compile("[0-9a-f]{16}").fullmatch
    return {int(tag, 16) for weak, tag in tags if not weak and is_lease(tag)} - {0}


# Lines of a batch

_LINE_MEMBERS = {"body", "body_base64", "id", "delay", "content_type", "properties", "queue"}


def lines_in(text: bytes) -> int | None:
    """How many messages a batch has; None if one of them is wrong."""
    lines = [line for line in text.split(b"\n") if line.strip(b" \t\r")]
    return len(lines) if lines and all(map(is_line, lines)) else None


def is_line(text: bytes) -> bool:
    try:
        found = parse(text.decode())
    except (UnicodeDecodeError, NotJson):
        return False
    if not isinstance(found, Pairs) or len(dict(found)) < len(found):
        return False
    members = dict(found)
    return members.keys() <= _LINE_MEMBERS and _has_body(members) and (
        ("id" not in members or (isinstance(members["id"], str) and is_id(members["id"])))
        and ("delay" not in members or _is_delay(members["delay"]))
        and ("content_type" not in members or _is_type(members["content_type"]))
        and ("properties" not in members or _has_properties(members["properties"]))
        and ("queue" not in members or _names_a_queue(members["queue"]))
    )  # fmt: skip


def _names_a_queue(value: Any) -> bool:
    return isinstance(value, str) and is_queue(value)


def _has_body(members: dict[str, Any]) -> bool:
    if ("body" in members) == ("body_base64" in members):
        return False
    text = members.get("body", members.get("body_base64"))
    if not isinstance(text, str):
        return False
    return is_unicode(text) if "body" in members else _BASE64.fullmatch(text) is not None


def is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_delay(value: Any) -> bool:
    return isinstance(value, Decimal) and 0 <= value <= _MAX_DELAY


def _is_type(value: Any) -> bool:
    return isinstance(value, str) and is_content_type(value)


def _has_properties(value: Any) -> bool:
    if not isinstance(value, Pairs) or not all(isinstance(each, str) for _, each in value):
        return False
    lowered = {name.lower() if name.isascii() else name: each for name, each in value}
    return len(lowered) == len(value) and are_properties(lowered)


# Settings

_NOTE = re.compile(r"[a-z][a-z0-9-]*\.[^\s=]{1,2000}")
_LINE_ENDS = set("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def are_settings(queue: str, text: str) -> bool:
    """Whether the file of a queue, which is not FIFO, counts."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip(_BLANK) or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name = name.strip(_BLANK)
        if not equals or name in found:
            return False
        found[name] = value.strip(_BLANK)
    own = {name: value for name, value in found.items() if value}
    if not all(is_setting_name(name) for name in found):
        return False
    if not all(is_setting(queue, *each) for each in own.items()):
        return False
    is_dead = queue.endswith(".dead")
    return not (is_dead and (own.get("max-receives", "0").strip("0") or "dead-letters" in own))


def is_setting_name(name: str) -> bool:
    return name in _SETTINGS or _NOTE.fullmatch(name) is not None


def is_setting(queue: str, name: str, value: str) -> bool:
    if name in _SETTINGS:
        return bool(_SETTINGS[name](value)) and not (name == "dead-letters" and value == queue)
    is_trimmed = not value[0].isspace() and not value[-1].isspace()
    return len(value) <= 4000 and is_trimmed and _LINE_ENDS.isdisjoint(value)


def _is_also(text: str) -> bool:
    queues = text.split(",")
    return len(set(queues)) < 64 and all(
        is_queue(each) and not each.endswith(".fifo") for each in queues
    )


_SETTINGS = {
    "visibility": lambda text: is_seconds(text, _MAX_VISIBILITY, above_zero=True),
    "delay": lambda text: is_seconds(text, _MAX_DELAY),
    "max-receives": lambda text: is_count(text, 0, 999_999_999),
    "dead-letters": lambda text: is_queue(text) and not text.endswith(".fifo"),
    "max-messages": lambda text: is_count(text, 0, 999_999_999),
    "ttl": lambda text: is_seconds(text, _MAX_TTL, above_zero=True),
    "paused": lambda text: text in {"true", "false"},
    "also": _is_also,
}


# Tokens

_TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_QUEUES = re.compile(r"[A-Za-z0-9_.*-]{1,85}(?:,[A-Za-z0-9_.*-]{1,85})*")
_SCOPES = re.compile(r"(?:read|write|admin)(?:,(?:read|write|admin))*")
_TOKEN = re.compile(r"(?=.{16})[A-Za-z0-9._~+/-]{1,1024}=*")
_HASH = re.compile("sha256:[0-9a-f]{64}")
_HASH_OF_NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def token_names(text: str) -> list[str] | None:
    """The names of the tokens of a file; None if it is wrong."""
    names: list[str] = []
    secrets: list[str] = []
    for line in text.split("\n"):
        words = [word for word in re.split("[ \t\r]", line) if word]
        if not words or words[0].startswith("#"):
            continue
        if not _is_token_line(words):
            return None
        names.append(words[0])
        secrets.append(words[-1])
    is_each_once = len(set(names)) == len(names) and len(set(secrets)) == len(secrets)
    return names if names and is_each_once else None


def _is_token_line(words: list[str]) -> bool:
    if len(words) not in (3, 4) or not _TOKEN_NAME.fullmatch(words[0]):
        return False
    if not _SCOPES.fullmatch(words[1]) or (len(words) == 4 and not _QUEUES.fullmatch(words[2])):
        return False
    secret = words[-1]
    if secret.startswith("sha256:"):
        return _HASH.fullmatch(secret) is not None and secret != _HASH_OF_NOTHING
    # A word like `orders` is queues whose token is missing.
    is_plain = re.fullmatch("[a-z_.-]+", secret) is not None
    return _TOKEN.fullmatch(secret) is not None and not (len(words) == 3 and is_plain)
