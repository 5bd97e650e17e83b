"""The API does what its OpenAPI document says: random requests, good and bad, find no answer that
the document lacks, and no defect."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
)
from schemathesis.core.result import Ok

from mq.spool.queue.queue_settings import SETTINGS
from tests.support.processes import Server

DOCUMENT = Path(str(files("mq.web").joinpath("openapi.json")))
SCHEMA = schemathesis.openapi.from_path(DOCUMENT)
QUEUE, DEAD = "orders", "orders.dead"
NDJSON = "application/x-ndjson"
MOST_WAIT_SECONDS = 0.05
EXAMPLES = 100


@schemathesis.serializer(NDJSON)
def write_lines(context: object, value: object) -> bytes:
    """A list becomes a line for each element; any other value becomes the one line, or stays as it
    is."""
    if isinstance(value, bytes):
        return value
    lines = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    server = Server(folder / "root", "--visibility=0.5", "--max-body=1MiB", log=folder / "log")
    yield server
    assert server.stop() == 0
    assert "request failed" not in server.log()


def _aim(case: Case[Any], message_id: str) -> None:
    """Most requests are about a queue and a message that are there; none waits for long."""
    if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        chance = zlib.crc32(f"{case.path_parameters}{case.query}".encode())
        if chance % 4:
            case.path_parameters["queue"] = QUEUE
        if chance % 3 == 0 and "id" in case.path_parameters:
            case.path_parameters["id"] = message_id
        if chance % 3 == 0 and "id" in case.query:
            case.query["id"] = message_id
        if chance % 5 and "from" in case.query:
            case.query["from"], case.path_parameters["queue"] = DEAD, QUEUE
            for name in ("id", "reason") if chance % 2 else ():
                case.query.pop(name, None)
            if "id" not in case.query:
                case.headers.pop("If-Match", None)  # it goes with an id alone
    if case.method == "GET" and "id" not in case.query:
        case.headers.pop("If-Match", None)
    if case.query.get("from") == DEAD:
        # What goes together the document cannot say.
        for name in ("batch", "delay", "max" if "id" in case.query else "id"):
            case.query.pop(name, None)
        case.headers.pop("X-Message-Id", None)
        case.body = b""
    elif case.media_type == NDJSON:
        case.query.setdefault("batch", "")  # without it the body may be anything
    if isinstance(case.query.get("wait"), int | float):
        case.query["wait"] = min(case.query["wait"], MOST_WAIT_SECONDS)


def _stock(server: Server) -> str:
    """See to it that the queue is there with a message, and dead letters too. Returns the id of the
    message. None is published that is not needed: most requests take none away."""
    with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        # Whatever settings a request before it has made.
        for target in (f"{QUEUE}?{'&'.join(f'{name}=' for name in SETTINGS)}", DEAD):
            connection.request("PUT", f"/{target}")
            connection.getresponse().read()
        return [_ready_in(connection, queue) for queue in (DEAD, QUEUE)][-1]


def _ready_in(connection: HTTPConnection, queue: str) -> str:
    connection.request("GET", f"/{queue}/messages?peek")
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        connection.request("POST", f"/{queue}/messages", b"body")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 201
    return answer.headers["X-Message-Id"]


class Far(NamedTuple):
    """What one operation answered, and how many messages its moves took."""

    statuses: set[int]
    moved: list[int]


@pytest.fixture
def far(request: pytest.FixtureRequest) -> Iterator[Far]:
    """Each operation got far by itself: the test has looked at more than refusals."""
    found, test = Far(set(), []), request.node.name
    yield found
    assert found.statuses & {200, 201, 202}
    assert found.statuses >= ({201, 400} if "PUT" in test else {400, 404})
    assert sum(found.moved) or "POST" not in test


def _test_of(operation: str) -> object:
    """What goes together the document cannot say, so a request that it allows may get a 400."""

    @SCHEMA.include(name=operation).parametrize()
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )  # fmt: skip
    def test(case: Case[Any], server: Server, far: Far) -> None:
        _aim(case, _stock(server))
        excluded = [positive_data_acceptance]
        if case.query.get("from") == DEAD:
            excluded.append(negative_data_rejection)  # what was wrong may have been taken out
        answer = case.call(base_url=server.url)
        if not answer.content:
            excluded += [content_type_conformance, response_schema_conformance]
        if answer.status_code == 431:
            excluded.append(negative_data_rejection)  # a refusal that the check does not know
        case.validate_response(answer, excluded_checks=excluded)
        far.statuses.add(answer.status_code)
        if answer.status_code == 200 and "from" in case.query:
            far.moved.append(answer.json()["moved"])

    return test


# One test for all would have one name for each of them, and pytest-xdist would run the first alone.
for _each in SCHEMA.get_all_operations():
    assert isinstance(_each, Ok)
    _words = "_".join(re.findall("[a-zA-Z]+", _each.ok().label))
    globals()[f"test_no_answer_is_undocumented_and_none_is_a_defect_{_words}"] = _test_of(
        _each.ok().label
    )
