"""What the documents list is what there is: no more, no less."""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import asdict
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mq import config
from mq.command.running import EXIT_CODES
from mq.commit.arrivals import MAX_PENDING_OPERATIONS
from mq.commit.barrier import FEW_UNSYNCED
from mq.config import MoverConfig, ReaperConfig, ServerConfig
from mq.daemon.cli import STANDALONE_KEEP_SECONDS, mq
from mq.daemon.server import SHUTDOWN_SECONDS
from mq.lifecycle import MOVES
from mq.properties import MAX_STORED_PROPERTIES_BYTES
from mq.spool.message.seal import MAX_STAMP_AHEAD_NS, Seal
from mq.store.answer_memory import MAX_BODIES_BYTES
from mq.store.free_space import MIN_FREE_INODES
from mq.store.maintenance import RELIST_SECONDS
from mq.store.patience import BUSY_WAIT_SECONDS
from mq.store.receiving.waiting import MAX_WAITING_RECEIVES
from mq.web import problems
from mq.web.connections.http_server import KEEPALIVE_SECONDS
from mq.web.problems import PROBLEMS, TYPE_PREFIX, ProblemType
from mq.web.routes import RESOURCES
from mq_mover.cli import mq_mover
from mq_mover.mover import NETWORK_SCAN_PAUSE_FACTOR
from mq_reaper.cli import mq_reaper
from mq_sqs.cli import mq_sqs
from tests.crash.enumeration.rows import ROWS
from tests.support.flags import options_of
from tests.support.sources import REPOSITORY, read_table

COMMANDS = {"mq": mq, "mq-mover": mq_mover, "mq-reaper": mq_reaper, "mq-sqs": mq_sqs}
DOCUMENTS = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md",
    *(f"docs/{path.name}" for path in sorted((REPOSITORY / "docs").glob("*.md"))),
]  # fmt: skip
COMPUTED_DEFAULTS = {"--min-free": "16 MiB, or 1 % of a smaller file system"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the variables of the commands out of the environment."""
    for command in COMMANDS.values():
        for option in options_of(command):
            monkeypatch.delenv(str(option.envvar), raising=False)


def default_of(option: click.Option) -> str:
    """Return the default as a document writes it."""
    if option.required:
        return "required"
    if option.is_flag:
        return "off"
    if option.default is None:
        return COMPUTED_DEFAULTS.get(option.opts[0], "none")
    if isinstance(option.default, tuple):
        return ",".join(option.default)
    return f"{option.default:g}" if isinstance(option.default, float) else str(option.default)


@pytest.mark.parametrize("name", COMMANDS)
def test_operations_lists_every_flag_with_its_variable_and_default(name: str) -> None:
    listed = flags_in(f"### {name}")
    if name == "mq-sqs":
        own, shared = {flag for flag, _, _ in listed}, shared_flags()
        listed |= {row for row in flags_in("### mq") if row[0] in shared}
        assert not own & shared

    assert listed == {
        (option.opts[0], str(option.envvar or "none"), default_of(option))
        for option in options_of(COMMANDS[name])
    }


def flags_in(heading: str) -> set[tuple[str, str, str]]:
    rows = read_table("docs/operations.md", heading)
    return {(flag, variable, default) for flag, variable, default, _ in rows}


def shared_flags() -> set[str]:
    """The flags that `mq-sqs` has as `mq` does."""
    section = (REPOSITORY / "docs/operations.md").read_text().partition("### mq-sqs\n")[2]
    listed = section.partition("Its other flags are those of `mq`")[2].partition("\n\n")[0]
    return set(re.findall("`(--[a-z-]+)`", listed))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_flag_with_its_variable_and_every_exit_code(name: str) -> None:
    text = CliRunner().invoke(COMMANDS[name], ["--help"]).output

    for option in options_of(COMMANDS[name]):
        assert option.opts[0] in text
        assert option.envvar is None or str(option.envvar) in text
        assert option.help
    for code, meaning in EXIT_CODES.items():
        assert f"{code.value:>4}  {meaning}" in text


@pytest.mark.parametrize(
    ("name", "arguments", "defaults"),
    [
        ("mq", [], asdict(ServerConfig())),
        ("mq-mover", ["--source=.", "--destination=."], asdict(MoverConfig(Path(), Path()))),
        ("mq-reaper", [], asdict(ReaperConfig())),
    ],
)
def test_a_flag_has_the_default_of_its_setting(
    name: str, arguments: list[str], defaults: dict[str, object]
) -> None:
    """Whatever form the command line writes it in."""
    found = COMMANDS[name].make_context(name, arguments).params

    assert {key: value for key, value in defaults.items() if found.get(key, value) != value} == {}


def test_operations_lists_every_exit_code() -> None:
    listed = {int(code): meaning for code, meaning in read_table(
        "docs/operations.md", "## Exit codes")}  # fmt: skip

    assert listed == EXIT_CODES


def test_protocol_lists_every_endpoint() -> None:
    listed = [row[0] for row in read_table("docs/protocol.md", "## Endpoints")]

    assert sorted(cell[1 : cell.index("]")] for cell in listed) == sorted(
        f"{method} {path}" for path, resource in RESOURCES.items() for method in resource
    )


def test_protocol_has_a_section_for_every_endpoint() -> None:
    text = (REPOSITORY / "docs/protocol.md").read_text()

    for path, resource in RESOURCES.items():
        for method in resource:
            assert method == "HEAD" or f"\n### `{method} {path}`\n" in text


def test_protocol_lists_every_problem_with_its_status_and_title() -> None:
    listed = {
        (kind, int(status), title)
        for kind, status, title, _ in read_table("docs/protocol.md", "## Problems")
    }
    others = [value for value in vars(problems).values() if isinstance(value, ProblemType)]

    assert listed == {
        (TYPE_PREFIX + problem.slug, problem.status, problem.title)
        for problem in (*PROBLEMS.values(), *others)
    }


def test_protocol_has_the_limits_as_they_are() -> None:
    limits = {row[0]: row[1] for row in read_table("docs/protocol.md", "## Limits")}

    assert limits["body"] == f"--max-body, {ServerConfig().max_body_bytes // config.MIB} MiB"
    assert limits["Content-Type"].startswith(f"{config.MAX_CONTENT_TYPE_BYTES} ")
    assert limits["requests that wait for the disk"] == str(MAX_PENDING_OPERATIONS)
    assert limits["idle connection"] == f"{KEEPALIVE_SECONDS:g} seconds"
    assert limits["wait"] == f"{config.MAX_WAIT_SECONDS} seconds"
    assert limits["receives that wait for a message"] == str(MAX_WAITING_RECEIVES)
    assert limits["max"] == f"{config.MAX_ANSWER_MESSAGES} messages"
    received = limits["bodies of a receive with max"]
    assert received.startswith(f"{MAX_BODIES_BYTES // config.MIB} MiB")
    days = config.MAX_VISIBILITY_SECONDS // 86_400
    assert limits["visibility timeout"] == f"--visibility: above 0, up to {days} days"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("lifecycle", f"every {config.SWEEP_SECONDS:g} seconds"),
        ("lifecycle", f"every {RELIST_SECONDS:g} seconds"),
        ("lifecycle", f"than after {config.RELIST_PAUSE_FACTOR} times as long"),
        ("lifecycle", f"up to {BUSY_WAIT_SECONDS * 1000:g} ms"),
        ("lifecycle", f"more than {MAX_STAMP_AHEAD_NS // (86_400 * 10**9)} days ahead"),
        ("lifecycle", f"Up to {FEW_UNSYNCED} files and folders"),
        ("lifecycle", f"Bodies over {config.SMALL_BODY_BYTES // config.KIB} KiB"),
        ("operations", f"up to {SHUTDOWN_SECONDS:g} seconds"),
        ("storage", f"every {RELIST_SECONDS:g} seconds"),
        ("storage", f"below {MIN_FREE_INODES} of them"),
        ("storage", f"scans every {MoverConfig(Path(), Path()).rescan_seconds:g} seconds, or"),
        ("storage", f"or after {NETWORK_SCAN_PAUSE_FACTOR} times as long"),
        ("lifecycle", f"up to {MAX_STORED_PROPERTIES_BYTES // config.MIB} MiB of them"),
        ("protocol", f"longer ones, up to {MAX_STORED_PROPERTIES_BYTES // config.MIB} MiB"),
        ("protocol", f"{STANDALONE_KEEP_SECONDS:g} seconds with `mq --standalone`"),
        ("protocol", f"`--visibility`, {ServerConfig().visibility_seconds:g} seconds"),
    ],
)
def test_a_number_in_the_text_is_that_of_the_code(document: str, words: str) -> None:
    text = (REPOSITORY / "docs" / f"{document}.md").read_text()

    assert words in " ".join(text.split())


def test_lifecycle_lists_every_move() -> None:
    listed = {
        (word, source, target, frozenset(actors.split(", ")))
        for word, source, target, actors in read_table("docs/lifecycle.md", "## Moves")
    }

    assert listed == {
        (move.word, move.source or "", move.target or "", move.actors) for move in MOVES
    }


def test_lifecycle_shows_the_seal_byte_by_byte() -> None:
    rows = read_table("docs/lifecycle.md", "## The seal")

    assert [row[2] for row in rows] == list(Seal._fields)
    for row in rows:
        offset, size = int(row[0]), int(row[1])
        packed = Seal(**dict.fromkeys(Seal._fields, 0) | {row[2]: 0x01020304}).pack()
        expected = struct.pack(f">{offset}x{'I' if size == 4 else 'Q'}", 0x01020304)
        assert packed == expected.ljust(len(packed), b"\0")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    """The target is a file of the repository and a heading in it; links to other sites are not
    looked at."""
    document = REPOSITORY / name
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", document.read_text())
    targets = {(document.parent / path if path else document, anchor) for path, anchor in links}

    assert {path for path, _ in targets if not path.exists()} == set()
    assert {
        anchor for path, anchor in targets if anchor and anchor not in anchors_of(path)
    } == set()


def anchors_of(document: Path) -> set[str]:
    """Those of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", ["README.md", "docs/access.md", "docs/client.md"])
def test_a_recipe_that_writes_a_token_lets_nobody_else_read_it(document: str) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (REPOSITORY / document).read_text(), re.M | re.S)
    writing = [block for block in blocks if re.search(r"> \S*token\b", block)]

    assert [block for block in writing if not block.startswith("umask 077\n")] == []
    assert bool(writing) is (document == "docs/access.md")


@pytest.mark.parametrize(
    "name",
    ["access", "backup", "deploy", "lifecycle", "operations", "protocol", "reliability", "spark",
     "sqs", "storage"],
)  # fmt: skip
def test_a_long_document_begins_with_its_sections(name: str) -> None:
    head, _, rest = (REPOSITORY / "docs" / f"{name}.md").read_text().partition("\n## ")
    sections = re.findall(r"^## (.*)$", f"## {rest}", re.MULTILINE)

    named = re.findall(r"\[([^\]]*)\]\(#[^)]*\)", head.rpartition("\n\n")[2])

    assert named == sections


def test_every_row_of_power_cuts_has_its_figures() -> None:
    table = read_table("docs/reliability.md", "## Power cuts, by enumeration")

    assert [row[0] for row in table] == [row.name for row in ROWS]
    assert {row[-1] for row in table} == {"0"}


def test_make_help_names_every_target_that_a_person_gives() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=REPOSITORY, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    phony = re.search(r"^\.PHONY: (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None

    named = set(re.findall(r"^make (\S+)", done.stdout, re.MULTILINE))
    assert named == set(phony[1].split()) - {"apt"}
