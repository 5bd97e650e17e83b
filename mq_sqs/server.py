"""The gateway in the place of the six endpoints, in a process that is otherwise that of `mq`."""

from __future__ import annotations

from collections.abc import Callable

from mq.config import ServerConfig
from mq.daemon.server import Front
from mq.errors import ExitCode, StartRefused
from mq.web.http_server import HttpServer
from mq_sqs.addresses import Decoration
from mq_sqs.gateway import Gateway


def front_maker(config: ServerConfig, decoration: Decoration) -> Callable[[Front], HttpServer]:
    """What `mq.daemon.server.serve` needs. Raises StartRefused."""
    if config.token_file is not None:
        raise StartRefused(
            ExitCode.USAGE, "--token-file: mq-sqs does not verify signatures yet; start it without"
        )

    def make(front: Front) -> HttpServer:
        gateway = Gateway(
            front.store,
            decoration,
            visibility_seconds=config.visibility_seconds,
            durations=front.durations,
            doors=front.doors,
        )
        return HttpServer(gateway.handle, front.limits)

    return make
