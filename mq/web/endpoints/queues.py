"""Create, describe and delete a queue over HTTP."""

from __future__ import annotations

import json
from urllib.parse import unquote

from aiohttp import web

from mq.errors import InvalidRequest, QueueNotFound
from mq.lifecycle import PurgeScope
from mq.store.store import Store
from mq.web.parameters import Target, path_and_query

NAME_OTHERS = frozenset({"dead-letters", "also"})
"""The settings that name other queues."""

NAMES_OF_ADMIN = frozenset({"livez", "readyz", "metrics", "queues", "events", "openapi.json"})
"""What the admin listener has. Probes and scrapes are often sent to the other port; a queue of that
name is not what they need."""


async def create_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    _refuse_bare(path_and_query(request).partition("?")[2])
    if await store.create_queue(target.queue, target.parameters):
        return web.Response(status=201, headers={"Location": f"/{target.queue}"})
    return web.Response(status=200)


def _refuse_bare(query: str) -> None:
    """Raise InvalidRequest for a name without `=`: `?paused` would end a pause, as `?paused=`, and
    is meant to begin one."""
    for name in map(unquote, query.split("&")):
        if name and "=" not in name:
            raise InvalidRequest(
                f"setting {name}: write {name}=VALUE, or {name}= to take the setting away"
            )


async def describe_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    try:
        info = await store.describe_queue(target.queue)
    except QueueNotFound:
        if target.queue not in NAMES_OF_ADMIN:
            raise
        raise QueueNotFound(
            f"there is no queue {target.queue}; /{target.queue} of the server is on a port of its "
            "own, that of --admin"
        ) from None
    document: dict[str, object] = {
        "queue": info.queue,
        "ready": info.ready,
        "leased": info.leased,
        "delayed": info.delayed,
        "oldest_age_seconds": info.oldest_age_seconds,
        "settings": info.settings.document(),
    }
    if info.missing:
        document["missing"] = info.missing
    return web.Response(body=json.dumps(document).encode() + b"\n", content_type="application/json")


async def delete_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    if "If-Match" in request.headers:
        # A client that sends a lease means one message, and not all of them.
        raise InvalidRequest(
            "header If-Match: a queue has no lease; remove a message with DELETE "
            f"/{target.queue}/messages/ID"
        )
    if "purge" in target.parameters:
        return await _purge(store, target)
    await store.delete_queue(target.queue)
    return web.Response(status=200)


async def _purge(store: Store, target: Target) -> web.Response:
    text = target.parameters["purge"]
    if text not in ("", PurgeScope.READY.value):
        raise InvalidRequest(
            f"parameter purge={text!r}: write ?purge for all messages, or ?purge=ready for those "
            "that are ready"
        )
    scope = PurgeScope.READY if text else PurgeScope.ALL
    purged = await store.purge(target.queue, scope)
    body = json.dumps({"purged": purged}).encode() + b"\n"
    return web.Response(body=body, content_type="application/json")
