"""The gateway in the place of the six endpoints, in a process that is otherwise that of `mq`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mq.commit.operation import InWorker, Operation
from mq.config import ServerConfig
from mq.daemon.server import Front, FrontMaker
from mq.errors import ExitCode, StartRefused, StoreUnavailable
from mq.store.shared_state import Workspace
from mq.store.store import Store
from mq.web.connections.http_server import HttpServer
from mq_sqs.gateway import Gateway
from mq_sqs.queues.addresses import Addressing
from mq_sqs.signing.signatures import Signatures
from mq_sqs.signing.signing_keys import SigningKeys


def front_maker(config: ServerConfig, addressing: Addressing) -> FrontMaker:
    """Return what `mq.daemon.server.serve` needs. Raises StartRefused."""
    keys = None if config.token_file is None else SigningKeys(config.token_file)

    @asynccontextmanager
    async def make(front: Front) -> AsyncIterator[HttpServer]:
        await _note_first_receives(front.store)
        if keys is not None:
            front.credentials.reload_too("signing keys", keys.reload)
        gateway = Gateway(
            front.store,
            addressing,
            visibility_seconds=config.visibility_seconds,
            signatures=None if keys is None else Signatures(keys),
            durations=front.durations,
            origins=front.origins,
        )
        async with gateway.working():
            yield HttpServer(gateway.handle, front.limits, gateway.quick)

    return make


async def _note_first_receives(store: Store) -> None:
    """Let each seal also say when its message was first received, in queues that were not made here
    too. Versions that do not know such seals do not open the root any more."""

    def note(work: Workspace) -> Operation[None]:
        if work.spool.has_seals:
            yield InWorker(work.spool.use_long_seals)

    try:
        await store.run(note)
    except StoreUnavailable as error:
        raise StartRefused(ExitCode.SYSTEM, f"the root's format: {error}") from error
