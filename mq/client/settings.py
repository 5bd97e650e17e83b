"""Settings of a queue, as a server takes and returns them."""

from __future__ import annotations

from typing import Any

from mq.client.answers import document_in, unexpected
from mq.client.wire import ServerAnswer
from mq.names import is_queue_name

SettingValue = float | int | str | bool | None
"""The value of a setting; None takes the setting away."""


def setting_text(value: SettingValue) -> str:
    """Return a value as a parameter has it: digits only, no exponent."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


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
