"""Other servers, to compare with: each as Debian packages it, with a sync before its answers.

Each is started on a port of its own, in a folder on the file system that MQ is measured on, and
stopped by its process id. The clients are written by hand, as small as that of MQ, so that what
differs is the server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from servers import Target

from peers import beanstalkd, postgresql, rabbitmq, redis


class Peer(NamedTuple):
    """`find` returns its program, None if it is not installed; `running` starts that program below
    a folder; `package` is Debian's."""

    name: str
    package: str
    durability: str
    find: Callable[[], str | None]
    running: Callable[[str, Path], AbstractContextManager[Target]]


PEERS = [
    Peer(module.NAME, package, module.DURABILITY, module.find, module.running_server)
    for module, package in (
        (beanstalkd, "beanstalkd"),
        (redis, "redis-server"),
        (postgresql, "postgresql"),
        (rabbitmq, "rabbitmq-server"),
    )
]
