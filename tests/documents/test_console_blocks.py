"""The console blocks of the documents, run as they are; `tests/support/console.py` reads them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.web.routes import RESOURCES
from tests.support.console import Console, ConsoleStep, read_steps, split
from tests.support.processes import Server
from tests.support.wire import Wire

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
WITH_STEPS = [path for path in DOCUMENTS if read_steps(path.read_text())]

SMALL_DOCUMENT = """
```console
$ curl -i -X PUT http://127.0.0.1:8080/orders
HTTP/1.1 201 Created
Location: /orders

$ curl -i http://127.0.0.1:8080/orders/messages -H 'Content-Type: text/plain' -d 'two coffees'
HTTP/1.1 201 Created
X-Message-Id: 01a1fcfc-2d8b-7793-aa0c-b8e761dfed12
Location: /orders/messages/01a1fcfc-2d8b-7793-aa0c-b8e761dfed12

$ curl -i http://127.0.0.1:8080/orders/messages
HTTP/1.1 200 OK
X-Message-Id: 01a1fcfc-2d8b-7793-aa0c-b8e761dfed12
Content-Type: text/plain
ETag: "4faf83323604a26b"
X-Published-At: 2026-11-21T07:22:27.595504Z
X-Visible-At: 2026-11-21T07:23:09.612892Z
X-Receive-Count: 1
Content-Disposition: attachment

two coffees

$ ls /tmp/mq/delay
orders:01a1fcfc-2d8b-7793-aa0c-b8e761dfed12
```
"""
MISTAKES = {
    "status": ("201 Created", "200 OK"),
    "header": ("Location: /orders\n", "Location: /order\n"),
    "missing header": ("X-Receive-Count: 1\n", ""),
    "additional header": ("Content-Type: text/plain\n", "Content-Type: text/plain\nAge: 0\n"),
    "body": ("\ntwo coffees\n", "\nthree coffees\n"),
    "no body": ("\ntwo coffees\n", "\n"),
    "another id": ("orders:01a1fcfc", "orders:01a1fcfd"),
    "lease of another shape": ('"4faf83323604a26b"', '"4faf83323604a26"'),
    "time of another shape": ("07:23:09.612892Z", "07:23:09Z"),
    "command that fails": ("$ ls /tmp/mq/delay", "$ ls /tmp/mq/delayed"),
    "unknown command": ("$ ls /tmp/mq/delay", "$ cat /tmp/mq/format"),
    "shell": ("$ ls /tmp/mq/delay", "$ ls /tmp/mq/delay | head -1"),
    "no status": ("curl -i -X PUT", "curl -X PUT"),
    "another server": ("127.0.0.1:8080/orders/messages\n", "127.0.0.1:8081/orders/messages\n"),
}


@pytest.fixture
def open_console(start_server: Callable[..., Server], tmp_path: Path) -> Callable[[], Console]:
    """A console on a fresh server."""
    if shutil.which("curl") is None:
        pytest.skip("curl is missing: install the package curl")

    def start() -> Console:
        server = start_server("--standalone")
        return Console(f"127.0.0.1:{server.port}", server.root)

    return start


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("path", WITH_STEPS, ids=name_of)
def test_every_command_prints_what_the_document_shows(
    path: Path, open_console: Callable[[], Console]
) -> None:
    console = open_console()

    for step in read_steps(path.read_text()):
        console.run(step)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_curl_stands_only_where_it_is_run(path: Path) -> None:
    text = path.read_text()

    commands = re.findall(r"curl\b.*http.*", text)

    assert len(commands) == sum(step.command.startswith("curl") for step in read_steps(text))


def routes_of(steps: list[ConsoleStep]) -> set[tuple[str, str]]:
    """Method and path pattern of every curl command."""
    found = set()
    for step in steps:
        words = split(step.command)
        if words[0] != "curl":
            continue
        url = next(word for word in words if word.startswith("http"))
        segments = len(url.partition("?")[0].split("/")) - 3
        pattern = list(RESOURCES)[segments - 1]
        default = "POST" if {"-d", "--data-binary", "-T"} & set(words) else "GET"
        method = words[words.index("-X") + 1] if "-X" in words else default
        found.add(("HEAD" if words[1] == "-I" else method, pattern))
    return found


@pytest.mark.parametrize("name", ["README.md", "docs/protocol.md"])
def test_every_endpoint_is_shown(name: str) -> None:
    """HEAD is GET without a body; only the protocol needs to show it."""
    routes = {(method, path) for path, resource in RESOURCES.items() for method in resource}
    if name == "README.md":
        routes = {(method, path) for method, path in routes if method != "HEAD"}

    assert routes - routes_of(read_steps((REPOSITORY / name).read_text())) == set()


def test_a_mistake_in_a_document_is_found(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    """The tests above can fail: a document that is right passes, each mistake in it does not."""
    if shutil.which("curl") is None:
        pytest.skip("curl is missing: install the package curl")
    server = start_server()
    wire = connect(server)

    def passes(document: str) -> bool:
        wire.request("DELETE", "/orders")
        console = Console(f"127.0.0.1:{server.port}", server.root)
        try:
            for step in read_steps(document):
                console.run(step)
        except AssertionError:
            return False
        return True

    assert passes(SMALL_DOCUMENT)
    missed = [
        mistake for mistake, change in MISTAKES.items() if passes(SMALL_DOCUMENT.replace(*change))
    ]

    assert missed == []
    assert all(change[0] in SMALL_DOCUMENT for change in MISTAKES.values())
