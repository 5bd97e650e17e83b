"""Whether the admin listener that nobody named belongs to the server that was named.

Ports may be mapped on the way to a server, so they say nothing. Both listeners of a server tell its
root by the same id, and all servers on a root show the same queues.
"""

from __future__ import annotations

from mq.client.blocking.session import Session
from mq.client.errors import NoAnswer
from mq.client.problems import error_of
from mq.client.wire import Request, ServerAnswer
from mq.config import DEFAULT_URL
from mq.errors import CommandFailed, ExitCode

_ROOT_ID = "x-root-id"
_UNAUTHORIZED = 401


def require_same_root(session: Session, url: str, listing: ServerAnswer, admin: str) -> None:
    """Compare the root of the server at `url`, which `session` asks, with that of the admin
    listener at `admin`, which gave `listing`. Where one of them does not tell, as an older version
    or behind some proxies, they count as the same.

    Raises CommandFailed if they differ, and ClientError if the server does not let mqctl in or does
    not answer, unless nobody may have meant it: one at the default URL.
    """
    root = listing.headers.get(_ROOT_ID)
    if root is None:
        return
    try:
        with session.begin(Request("GET", "/")) as exchange:
            answer = exchange.whole()
    except NoAnswer:
        if url == DEFAULT_URL:
            return
        raise
    if answer.status == _UNAUTHORIZED:
        raise error_of(answer)
    if answer.headers.get(_ROOT_ID, root) != root:
        raise CommandFailed(
            ExitCode.UNAVAILABLE,
            f"{admin} is the admin listener of a server on another root than the one at {url}; "
            "name the right one as --admin HOST:PORT, or work on the folders with --root",
        )
