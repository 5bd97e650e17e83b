"""What a shell offers at the tab key in the place of a queue's name."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path

import click

from mq.ctl.common_flags import CommonFlags, credentials, flags_of
from mq.errors import MQError
from mq.lifecycle import Folder
from mq.names import is_queue_name

_PATIENCE_SECONDS = 2.0
"""A person waits at the prompt."""


def queue_names(context: click.Context, begun: str) -> list[str]:
    """Return what may become of a word that names queues, with commas between them: the last one
    ends as another queue of the way in that the words before it choose. There is none where nothing
    answers: a prompt has no place for an error."""
    logging.getLogger("mq.client").disabled = True
    try:
        # Not every command that takes a queue has the flag.
        admin = context.params.get("admin") or os.environ.get("MQCTL_ADMIN")
        flags = flags_of(context, admin)
        found = _over_http(flags) if flags.root is None else _in_folders(flags.root)
    except (MQError, OSError, ValueError, LookupError, TypeError, click.UsageError):
        return []
    named, comma, last = begun.rpartition(",")
    others = set(found).difference(named.split(","))
    return sorted(f"{named}{comma}{name}" for name in others if name.startswith(last))


def _in_folders(root: Path) -> list[str]:
    return [name for name in os.listdir(root / Folder.QUEUES) if is_queue_name(name)]


def _over_http(flags: CommonFlags) -> list[str]:
    """Ask the admin listener, which alone knows all queues."""
    from mq.client.retries import ask
    from mq.client.wire import Request, json_in
    from mq.ctl.ways.connect import admin_url, open_session
    from mq.ctl.ways.same_root import require_same_root

    shown, main = credentials(flags), flags.url.rstrip("/")
    admin = admin_url(main, flags.admin, shown.cacert)
    with closing(open_session(admin, shown, timeout_seconds=_PATIENCE_SECONDS)) as session:
        answer = session.run(ask(session.context, Request("GET", "/queues")))
    if flags.admin is None:
        with closing(open_session(main, shown, timeout_seconds=_PATIENCE_SECONDS)) as session:
            require_same_root(session, main, answer, admin)
    return [str(each["queue"]) for each in json_in(answer.body)]
