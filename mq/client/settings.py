"""Settings of a queue, as a server takes and gives them."""

from __future__ import annotations

from typing import Any

from mq.client.messages import document_in, unexpected
from mq.client.wire import ServerAnswer

SettingValue = float | int | str | bool | None
"""Of a setting; None takes the setting away."""


def setting_text(value: SettingValue) -> str:
    """As a parameter has it: digits only, no exponent."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def settings_in(answer: ServerAnswer) -> dict[str, Any]:
    """The settings of a queue, by name; none from a server that knows none. Raises
    UnexpectedAnswer."""
    found = document_in(answer.body).get("settings", {})
    if not isinstance(found, dict):
        raise unexpected("has settings that are not an object")
    return found
