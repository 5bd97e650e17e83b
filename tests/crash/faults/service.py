"""A server in this process, so that its system calls can fail, and a client of it over HTTP."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

from aiohttp import web

from mq.config import SWEEP_SECONDS, ServerConfig
from mq.disk.files import Files
from mq.spool.spool import Spool
from mq.store.opening import open_store
from mq.web.connections.connection import Limits
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.quick.way import make_http
from tests.crash.faults.ledger import FaultLedger
from tests.crash.load import LoadAnswer, LoadClient, client_at
from tests.support.descriptors import open_paths
from tests.support.messages import names_in

RELIEF_SECONDS = SWEEP_SECONDS + 5.0
"""How soon after relief everything is served again. What an operation could not take back waits for
the next sweep."""

_LONG_SECONDS = 1000.0


class ServiceRequest(NamedTuple):
    """What goes over the wire; `{id}`, `{lease}` and so on stand for what was made before it."""

    method: str
    target: str
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed

    def about(self, **known: str) -> ServiceRequest:
        headers = {name: value.format(**known) for name, value in self.headers.items()}
        body = self.body.replace(b"{fresh}", known.get("fresh", "").encode())
        return self._replace(target=self.target.format(**known), body=body, headers=headers)


class Service:
    """The server on `root`, and what its one client was answered."""

    def __init__(self, root: Path, port: int, spool: Spool) -> None:
        self.root = root
        self._spool = spool
        self.ledger = FaultLedger()
        self._port = port

    def forget_format(self) -> None:
        """Let the server believe that no properties were published yet."""
        self._spool._has_raised_format = False

    async def send(self, request: ServiceRequest, note: str = "without a fault") -> LoadAnswer:
        """Ask on a new connection; what is answered goes to the ledger. Raises ServerGone."""
        async with client_at(self._port) as client:
            return await self._ask(client, request, note)

    async def _ask(
        self, client: LoadClient, request: ServiceRequest, note: str = "without a fault"
    ) -> LoadAnswer:
        self._note_request(request)
        answer = await client.request(
            request.method, request.target, request.body, **request.headers
        )
        self._note_answer(request, answer, note)
        return answer

    def _note_request(self, request: ServiceRequest) -> None:
        if "?from=" in request.target:
            if "&id=" in request.target:
                self.ledger.leased.discard((_value_of("from", request), _value_of("id", request)))
        elif request.method == "POST":
            self.ledger.sent.update(_bodies(request))
            self.ledger.batches.append(frozenset(_bodies(request)))
            if "removes=" in request.target:
                message_id = _handed_over(request)
                self.ledger.asked_to_remove.add(message_id)
                self.ledger.handovers[message_id] = frozenset(_bodies(request))
            if "also=" in request.target:
                number = 1 + len(_value_of("also", request).split(","))
                self.ledger.copies |= dict.fromkeys(_bodies(request), number)
        elif request.method == "DELETE":
            self.ledger.asked_to_remove |= self._removed_by(request)
        elif request.target.endswith("&visibility=0"):
            self.ledger.leased.discard((_queue_of(request), _value_of("id", request)))

    def _note_answer(self, request: ServiceRequest, answer: LoadAnswer, note: str) -> None:
        ledger = self.ledger
        if "?from=" in request.target:
            return
        if request.method == "POST" and answer.status in (200, 201):
            ids = [line["id"] for line in _lines(answer)] or [answer.message_id]
            ledger.published.update(zip(ids, _bodies(request), strict=True))
            ledger.queues.update(dict.fromkeys(ids, _queue_of(request)))
            ledger.notes.update(dict.fromkeys(ids, note))
            if "removes=" in request.target:
                ledger.removed.add(_handed_over(request))
        elif request.method == "DELETE" and answer.status in (200, 202):
            ledger.removed |= self._removed_by(request)
            ledger.notes.update(dict.fromkeys(self._removed_by(request), note))
        elif request.method == "GET" and answer.status == 200 and "?peek" not in request.target:
            for message_id, body in _received(answer):
                self._note_lease(request, message_id, body)
                ledger.notes[message_id] = note

    def _note_lease(self, request: ServiceRequest, message_id: str, body: bytes) -> None:
        ledger, is_by_id = self.ledger, "?id=" in request.target
        leased = _queue_of(request), message_id
        assert ledger.published.get(message_id, body) == body
        assert body in ledger.sent
        assert message_id not in ledger.removed
        assert is_by_id or ledger.may_keep_names or leased not in ledger.leased
        ledger.leased.add(leased)

    def _removed_by(self, request: ServiceRequest) -> set[str]:
        """The messages that a DELETE removes: those it names, or all of a queue."""
        _, queue, *rest = request.target.partition("?")[0].split("/")
        return set(rest[-1].split(",")) if rest else self.ledger.messages_of(queue)

    async def publish(self, body: bytes = b"before", queue: str = "orders") -> str:
        answer = await self.send(ServiceRequest("POST", f"/{queue}/messages", body))
        assert answer.status == 201
        return answer.message_id

    async def receive(self, queue: str = "orders") -> LoadAnswer:
        answer = await self.send(ServiceRequest("GET", f"/{queue}/messages"))
        assert answer.status == 200
        return answer

    async def serves_again(self, descriptors: int) -> None:
        """Wait until publish, receive and remove all work, no message is left in `new`, and no more
        than `descriptors` are open. Fails when that takes too long. What was given up is swept
        later, and a folder that only the traceback of an error refers to is closed with that."""
        async with asyncio.timeout(RELIEF_SECONDS):
            while not await self._serves():
                await asyncio.sleep(0.01)
            while names_in(self.root / "new") or open_but_for_queues() > descriptors:
                gc.collect()
                await asyncio.sleep(0.01)

    async def batches_are_swept(self) -> None:
        """Wait until `new` has no batch either, whose name is hidden. One that was given up stays
        there until the next sweep. Fails when that takes too long."""
        async with asyncio.timeout(RELIEF_SECONDS):
            while os.listdir(self.root / "new"):
                await asyncio.sleep(0.01)

    async def hand_out_all(self, ledger: FaultLedger) -> None:
        """Take over another one's ledger, and receive every message that it says is ready."""
        self.ledger = ledger
        for queue in names_in(self.root / "queues"):
            request = ServiceRequest("GET", f"/{queue}/messages")
            while (answer := await self.send(request, "by a fresh store")).status == 200:
                pass
            assert answer.status in (204, 404)

    async def _serves(self) -> bool:
        async with client_at(self._port) as client:
            publication = ServiceRequest("POST", "/probe/messages", b"probe")
            if (await self._ask(client, publication)).status != 201:
                return False
            received = await self._ask(client, ServiceRequest("GET", "/probe/messages"))
            if received.status != 200:
                return False
            removal = ServiceRequest("DELETE", f"/probe/messages/{received.message_id}")
            return (await self._ask(client, removal)).status == 202


@asynccontextmanager
async def service_on(root: Path, files: Files) -> AsyncIterator[Service]:
    """Serve `root`, with the queues `orders`, `bills` and `probe`, until the block ends."""
    config = ServerConfig(root=root, visibility_seconds=_LONG_SECONDS)
    async with open_store(config, files) as store:
        http = make_http(store, Limits(), None, Durations(), OriginPolicy(("mq",)))
        runner = web.ServerRunner(http, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            port = int(runner.addresses[0][1])
            service = Service(root, port, store._work.spool)
            for queue in ("orders", "bills", "probe"):
                await service.send(ServiceRequest("PUT", f"/{queue}"))
            yield service
        finally:
            await runner.cleanup()


def open_but_for_queues() -> int:
    """Return how many descriptors are open, without those of the folders of queues, which stay
    open."""
    paths = [*map(Path, open_paths())]
    queues = {path for path in paths if path.parent.name == "queues" and path.is_dir()}
    return len(paths) - len(queues)


def _bodies(request: ServiceRequest) -> list[bytes]:
    if request.headers.get("Content-Type") != "application/x-ndjson":
        return [request.body]
    return [json.loads(line)["body"].encode() for line in request.body.splitlines()]


def _lines(answer: LoadAnswer) -> list[dict[str, str]]:
    """Each line of an ndjson answer; none if it is not one."""
    if answer.headers.get("content-type") != "application/x-ndjson":
        return []
    return [json.loads(line) for line in answer.body.splitlines()]


def _received(answer: LoadAnswer) -> list[tuple[str, bytes]]:
    """The ids and bodies of an answer that gives out messages."""
    if "etag" in answer.headers:
        return [(answer.message_id, answer.body)]
    return [
        (line["id"], line["body"].encode() if "body" in line else b64decode(line["body_base64"]))
        for line in _lines(answer)
    ]


def _queue_of(request: ServiceRequest) -> str:
    return request.target.split("/")[1]


def _handed_over(request: ServiceRequest) -> str:
    return _value_of("removes", request).partition("/")[2]


def _value_of(parameter: str, request: ServiceRequest) -> str:
    return parse_qs(request.target.partition("?")[2])[parameter][0]
