"""The settings of a queue: their names, the values that each takes, and the text that holds them.

For a setting that a queue lacks, the flags of the server or the mover apply. This module loads
nothing of the server: clients and `mqctl` read and write the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from mq.config import MAX_DELAY_SECONDS, MAX_QUEUES, MAX_VISIBILITY_SECONDS
from mq.errors import InvalidName, InvalidRequest
from mq.names import QueueName, dead_letter_queue, is_fifo, parse_queue_name
from mq.times import seconds_in, seconds_text

Value = float | int | str | bool | tuple[QueueName, ...]

NO_CHANGES: Mapping[str, str] = {}

MAX_TTL_SECONDS = 10 * 365 * 86_400
MAX_SETTING_COUNT = 999_999_999

_COUNT = re.compile(r"[0-9]{1,9}")
_TRUTH = {"true": True, "false": False}
_NOTE = re.compile(r"[a-z][a-z0-9-]*\.[^\s=]{1,2000}")
_NOTED = re.compile(r"\S(?:[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]{0,3998}\S)?")
_BLANK = " \t\r"
_SHORTEST_SECONDS = 1e-9
"""More than 0, and the least that the text of a number can say."""


class DeadLetterRule(NamedTuple):
    """When a message is a dead letter: after this many receives, 0 for never; and the queues that
    it may go to, the first that has no other message of its id."""

    max_receives: int
    queues: tuple[QueueName, ...]

    def queues_after(self, receive_count: int) -> tuple[QueueName, ...]:
        """Return the queues for a message that was received so often; none if it lives on."""
        return self.queues if 0 < self.max_receives <= receive_count else ()


NO_DEAD_LETTERS = DeadLetterRule(0, ())


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of a queue, None where it leaves that to the flags. A `max_receives` or
    `max_messages` of 0 means no limit, whatever the flags say.

    The queues in `also` get a copy of what is published to this one. `notes` are what a gateway
    keeps with the queue, like `sqs.wait`: MQ stores and shows them.
    """

    visibility_seconds: float | None = None
    delay_seconds: float | None = None
    max_receives: int | None = None
    dead_letters: QueueName | None = None
    max_messages: int | None = None
    ttl_seconds: float | None = None
    paused: bool | None = None
    also: tuple[QueueName, ...] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def dead_letter_rule(self, queue: QueueName, max_receives: int) -> DeadLetterRule:
        """Return the rule that applies; `max_receives` is what the flags say. Nothing is moved out
        of a `.dead` queue, nor out of a FIFO queue whose own settings do not say where to."""
        if is_fifo(queue) and self.dead_letters is None:
            return NO_DEAD_LETTERS
        limit = max_receives if self.max_receives is None else self.max_receives
        own = dead_letter_queue(queue)
        if own is None:
            return NO_DEAD_LETTERS
        named = self.dead_letters or own
        return DeadLetterRule(limit, (named,) if named == own or is_fifo(queue) else (named, own))

    def document(self) -> dict[str, float | int | str | bool]:
        """Return the settings that the queue has, by name, as JSON shows them."""
        found = {name: getattr(self, setting.field) for name, setting in SETTINGS.items()}
        short = {name: _short(value) for name, value in found.items() if value is not None}
        return short | dict(sorted(self.notes.items()))

    def text(self) -> str:
        """Return the text of the file `.settings`: a line `name=value` for each."""
        return "".join(f"{name}={_text(value)}\n" for name, value in self.document().items())


NO_SETTINGS = QueueSettings()


class Setting(NamedTuple):
    """A setting: its field, the values that it takes, and how its text is read. Reading returns
    None if the text is wrong."""

    field: str
    takes: str
    read: Callable[[str], Value | None]


def _read_seconds(least: float, most: float, text: str) -> float | None:
    seconds = seconds_in(text)
    return seconds if seconds is not None and least <= seconds <= most else None


def _seconds(field: str, most: int, least: float = 0.0) -> Setting:
    begins = "above 0" if least else "0"
    takes = f"seconds, {begins} to {most}, such as 30 or 0.5"
    return Setting(field, takes, partial(_read_seconds, least, most))


def _read_count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


def _read_queue(text: str) -> QueueName | None:
    try:
        return parse_queue_name(text)
    except InvalidName:
        return None


def _read_queues(text: str) -> tuple[QueueName, ...] | None:
    queues = [_read_queue(each) for each in text.split(",")]
    found = tuple(dict.fromkeys(each for each in queues if each is not None))
    return found if None not in queues and len(found) < MAX_QUEUES else None


_COUNTS = f"a whole number, 0 to {MAX_SETTING_COUNT}; 0 means no limit"

SETTINGS: Mapping[str, Setting] = {
    "visibility": _seconds("visibility_seconds", MAX_VISIBILITY_SECONDS, _SHORTEST_SECONDS),
    "delay": _seconds("delay_seconds", MAX_DELAY_SECONDS),
    "max-receives": Setting("max_receives", _COUNTS, _read_count),
    "dead-letters": Setting("dead_letters", "the name of a queue", _read_queue),
    "max-messages": Setting("max_messages", _COUNTS, _read_count),
    "ttl": _seconds("ttl_seconds", MAX_TTL_SECONDS, _SHORTEST_SECONDS),
    "paused": Setting("paused", "true or false", _TRUTH.get),
    "also": Setting(
        "also",
        f"the names of up to {MAX_QUEUES - 1} queues, such as bills,kitchen",
        _read_queues,
    ),
}
"""The settings by the name that parameters, the file and `mqctl set` use for them. Any other name
with a dot, like `sqs.wait`, is a note, which a gateway of that name understands."""


def change(queue: QueueName, before: QueueSettings, changes: Mapping[str, str]) -> QueueSettings:
    """Return the settings with some of them changed; an empty value takes a setting away. Raises
    InvalidRequest, which names the setting."""
    after = _changed(before, changes)
    _check_dead_letters(queue, after)
    _check_also(queue, after)
    return after


def _changed(before: QueueSettings, changes: Mapping[str, str]) -> QueueSettings:
    values: dict[str, Any] = {}
    notes = dict(before.notes)
    for name, text in changes.items():
        setting = SETTINGS.get(name)
        if setting is None and _NOTE.fullmatch(name):
            _change_note(notes, name, text)
            continue
        if setting is None:
            raise InvalidRequest(f"unknown setting {name!r}; a queue has {', '.join(SETTINGS)}")
        value = setting.read(text) if text else None
        if value is None and text:
            raise InvalidRequest(f"setting {name}={text!r}: give {setting.takes}")
        # A queue that is not paused has no such setting.
        values[setting.field] = None if value is False else value
    return replace(before, notes=notes, **values)


def _check_dead_letters(queue: QueueName, after: QueueSettings) -> None:
    """Raise InvalidRequest if the queue cannot have what these settings say of dead letters."""
    if after.dead_letters == queue:
        raise InvalidRequest(f"setting dead-letters={queue!r}: name another queue than this one")
    if after.dead_letters is not None and is_fifo(after.dead_letters) != is_fifo(queue):
        raise InvalidRequest(
            f"setting dead-letters={after.dead_letters!r}: the dead letters of a FIFO queue go to "
            "a FIFO queue, and no others do"
        )
    if dead_letter_queue(queue) is None and (after.max_receives or after.dead_letters):
        raise InvalidRequest(
            f"queue {queue} holds dead letters, which leave it only when someone moves them: it "
            "takes neither max-receives nor dead-letters"
        )


def _check_also(queue: QueueName, after: QueueSettings) -> None:
    """Raise InvalidRequest if the queue cannot have what these settings say of copies."""
    also = after.also or ()
    if queue in also:
        raise InvalidRequest(f"setting also: name other queues than {queue}")
    if any(map(is_fifo, (queue, *also) if also else ())):
        raise InvalidRequest("setting also: a FIFO queue neither gives nor takes copies")


def _change_note(notes: dict[str, str], name: str, text: str) -> None:
    if not text:
        notes.pop(name, None)
    elif _NOTED.fullmatch(text):
        notes[name] = text
    else:
        raise InvalidRequest(
            f"setting {name}: give one line of up to 4000 characters, without space at its ends"
        )


def parse_settings(queue: QueueName, text: str) -> QueueSettings:
    """Read the text of the file. Empty lines and lines that begin with `#` are ignored. Raises
    InvalidRequest if any other line is not a setting."""
    changes: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip(_BLANK) or line.startswith("#"):
            continue
        name, equals, value = (part.strip(_BLANK) for part in line.partition("="))
        if not equals:
            raise InvalidRequest(f"line {number} is not name=value")
        if name in changes:
            raise InvalidRequest(f"line {number}: {name} is given twice")
        changes[name] = value
    return change(queue, NO_SETTINGS, changes)


def _short(value: Value) -> float | int | str | bool:
    if isinstance(value, tuple):
        return ",".join(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: float | int | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return seconds_text(value) if isinstance(value, float) else str(value)
