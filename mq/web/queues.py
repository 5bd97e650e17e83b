"""Create, describe and delete a queue."""

from __future__ import annotations

import json

from aiohttp import web

from mq.store.store import Store
from mq.web.parameters import Target


async def create_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    if await store.create_queue(target.queue, target.parameters):
        return web.Response(status=201, headers={"Location": f"/{target.queue}"})
    return web.Response(status=200)


async def describe_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    info = await store.describe_queue(target.queue)
    document = {
        "queue": info.queue,
        "ready": info.ready,
        "leased": info.leased,
        "delayed": info.delayed,
        "oldest_age_seconds": info.oldest_age_seconds,
        "settings": info.settings.document(),
    }
    return web.Response(body=json.dumps(document).encode() + b"\n", content_type="application/json")


async def delete_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    await store.delete_queue(target.queue)
    return web.Response(status=200)
