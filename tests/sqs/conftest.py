"""Gateways as real processes on port 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import client_of, make_url
from tests.support.processes import Process, Server, start_mover


@pytest.fixture
def start_gateway(tmp_path: Path, processes: list[Process]) -> Callable[..., Server]:
    """`start_gateway("--region=eu-west-1", root=...)` starts `mq-sqs`; killed with the test."""

    def start(*flags: str, root: Path | None = None) -> Server:
        log = tmp_path / f"sqs-{len(processes)}.log"
        server = Server(root or tmp_path / "root", *flags, log=log, module="mq_sqs")
        processes.append(server)
        return server

    return start


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for the whole file, with a mover beside it. Whatever clients do, it logs no defect."""
    folder = tmp_path_factory.mktemp("sqs")
    server = Server(folder / "root", log=folder / "sqs.log", module="mq_sqs")
    mover = start_mover(server.root)
    yield server
    mover.kill()
    server.kill()
    assert "Traceback" not in server.log()


@pytest.fixture(scope="module")
def sqs(gateway: Server) -> Any:
    """A client of boto3."""
    return client_of(gateway)


@pytest.fixture
def url(sqs: Any) -> str:
    """That of a new queue."""
    return make_url(sqs)
