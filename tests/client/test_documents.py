"""The programs of docs/client.md, run as they stand."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mq import client
from mq.client import Client, ClientError, Queue, QueueNotFound, Refused
from tests.support.mqctl import without_ours
from tests.support.processes import Server, wait_until
from tests.support.sources import REPOSITORY, read_table

DOCUMENT = "docs/client.md"
TEXT = (REPOSITORY / DOCUMENT).read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)


def run(program: str, prints: str, server: Server, folder: Path) -> str:
    """What it prints on both; a worker gets SIGTERM once it has printed what it should."""
    script, output = folder / "program.py", folder / "output"
    script.write_text(program.replace("http://127.0.0.1:8080", server.url))
    with output.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(script)],
            stdout=written, stderr=subprocess.STDOUT,
            env=without_ours() | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        if ".worker(" in program:
            wait_until(lambda: output.read_text() == prints or process.poll() is not None, 100)
            process.terminate()
        assert process.wait(30) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()
    return output.read_text()


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server]) -> Server:
    return start_shared("--standalone")


@pytest.fixture(autouse=True)
def no_orders(server: Server) -> Iterator[None]:
    """After each program, which all have a queue of that name."""
    yield
    with Client(server.url) as mq, suppress(QueueNotFound):
        mq.queue("orders").delete()


@pytest.mark.parametrize(("program", "prints"), PROGRAMS)
def test_a_program_prints_what_the_document_shows(
    program: str, prints: str, server: Server, tmp_path: Path
) -> None:
    assert run(program, prints, server, tmp_path) == prints


def test_the_program_of_the_readme_works(server: Server, tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (program,) = [program for program in programs if "mq.client" in program]

    assert run(program, "two coffees\n", server, tmp_path) == "two coffees\n"


def test_every_program_is_run() -> None:
    assert len(PROGRAMS) == TEXT.count("```python") >= 5


def test_every_error_is_listed() -> None:
    listed = {row[0] for row in read_table(DOCUMENT, "## Errors")}
    kinds = [kind for kind in vars(client).values() if inspect.isclass(kind)]

    assert listed == {
        kind.__name__
        for kind in [*kinds, Refused]
        if issubclass(kind, ClientError) and kind is not ClientError
    }


def test_every_setting_is_listed_with_its_default() -> None:
    listed = {row[0]: row[1] for row in read_table(DOCUMENT, "## Settings")}
    parameters = inspect.signature(Client).parameters

    assert listed.keys() == parameters.keys()
    for name in ("timeout_seconds", "retry_seconds"):
        assert listed[name] == f"{parameters[name].default:g}"


def test_every_method_of_a_queue_is_listed_with_its_parameters() -> None:
    listed = {row[0].partition("(")[0]: row[0] for row in read_table(DOCUMENT, "## Queues")}
    methods = {
        name: inspect.signature(method).parameters
        for name, method in vars(Queue).items()
        if not name.startswith("_")
    }

    assert listed.keys() == methods.keys()
    for name, parameters in methods.items():
        for parameter in parameters.keys() - {"self"}:
            assert re.search(rf"\b{parameter}\b", listed[name]), (name, parameter)
