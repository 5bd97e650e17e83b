"""The limits of VSQS."""

from __future__ import annotations

RESCAN_SECONDS = 1.0
"""How often a waiting queue lists its folder where no file system events come."""

MAX_LOOKS = 8
"""How often a queue is listed for one message before the message counts as gone, where a listing is
not as of one moment and the folder changes each time."""

NEW_SECONDS = 300.0
"""A message that is being written, but was not for this time, was left by a crash."""

MAX_LEAD_SECONDS = 1.0
LEAD_PAUSE_SECONDS = 0.05
"""If more messages are published to a queue than there are names, a publisher waits for the clock,
one pause at most. If the names are ahead of the clock by more than the first value, the clock was
set back, and publishers do not wait."""
