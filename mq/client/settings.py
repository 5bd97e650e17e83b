"""Settings of a queue, as a server takes and returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mq.client.answers import document_in, unexpected
from mq.client.arguments import queue_name
from mq.client.wire import ServerAnswer
from mq.names import is_queue_name
from mq.times import seconds_text

SettingValue = float | int | str | bool | Sequence[str] | None
"""The value of a setting, or the names in it; None takes the setting away."""


def setting_text(name: str, value: SettingValue) -> str:
    """Return a value as a parameter has it. Raises TypeError and InvalidName for what is in a list
    and names no queue."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence):
        return ",".join(queue_name(name, each) for each in value)
    return seconds_text(value) if isinstance(value, float) else str(value)


def settings_in(answer: ServerAnswer) -> dict[str, Any]:
    """Return the settings of a queue, by name, and none from a server that does not know settings.
    Raises UnexpectedAnswer."""
    found = document_in(answer.body).get("settings", {})
    if not isinstance(found, dict):
        raise unexpected("has settings that are not an object")
    chosen = found.get("dead-letters")
    # Messages are moved there, and from there.
    if "dead-letters" in found and not (isinstance(chosen, str) and is_queue_name(chosen)):
        raise unexpected("names no queue as dead-letters")
    return found
