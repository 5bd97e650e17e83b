"""Imports point one way: from the HTTP shell down to names and limits, never back."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.sources import (
    PACKAGES,
    REPOSITORY,
    imports_of,
    module_name,
    nodes_of,
    package_files,
    read_table,
)


def read_levels() -> dict[str, int]:
    """Return the level of each package and loose module, as the table of CONTRIBUTING.md has it."""
    levels = {"mq": 0}
    for level, modules, _ in read_table("CONTRIBUTING.md", "## The house"):
        for name in modules.split(", "):
            levels[name if name.startswith("mq") else f"mq.{name}"] = int(level)
    return levels | {"mq.__main__": levels["mq.daemon"]}


LEVELS = read_levels()
"""A module may import from its own level and from those below."""

HIGHEST_FOR_PROCESSES = 2
"""mq_mover, mq_reaper, pyspark_mq and vsqs share what handles files, nothing of the server."""

HTTP_MODULES = {"aiohttp", "uvloop", "aiofiles"}
HIGHEST_WITHOUT_HTTP = 3

PATHS = {module_name(path): path for path in package_files()}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What each module imports."""
    return {module: imports_of(path) for module, path in PATHS.items()}


@pytest.fixture(scope="module")
def ours(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """What each module imports of the packages."""
    return {
        module: {name for name in imported if name.partition(".")[0] in PACKAGES}
        for module, imported in imports.items()
    }


def room_of(module: str) -> str:
    """Return the row of the table that a module belongs to: its package, or itself."""
    return ".".join(module.split(".")[:2]) if module.startswith("mq.") else module.partition(".")[0]


def level_of(module: str) -> int:
    """Return the level of a module. Raises KeyError if it has none yet: give it one."""
    return LEVELS[room_of(module)]


def server_modules() -> list[str]:
    return [module for module in PATHS if module.partition(".")[0] in ("mq", "mq_sqs")]


def test_the_table_of_levels_names_each_room_once() -> None:
    rows = read_table("CONTRIBUTING.md", "## The house")
    named = [name for _, modules, _ in rows for name in modules.split(", ")]

    assert LEVELS.keys() == {room_of(module) for module in server_modules()}
    assert len(named) == len(set(named))


@pytest.mark.parametrize("module", server_modules())
def test_a_module_imports_from_its_level_and_below(module: str, ours: dict[str, set[str]]) -> None:
    above = {name for name in ours[module] if level_of(name) > level_of(module)}

    assert above == set()


def test_only_its_own_modules_import_the_gateway(ours: dict[str, set[str]]) -> None:
    """It is above all of `mq`, which starts it by its name."""
    importers = {
        module.partition(".")[0]
        for module, imported in ours.items()
        if any(name.partition(".")[0] == "mq_sqs" for name in imported)
    }

    assert importers == {"mq_sqs"}


@pytest.mark.parametrize("package", ["mq_mover", "mq_reaper", "pyspark_mq", "vsqs"])
def test_processes_import_nothing_of_the_server_or_each_other(
    package: str, ours: dict[str, set[str]]
) -> None:
    imported = {name for module in ours if module.startswith(package) for name in ours[module]}
    others = {name for name in imported if name.partition(".")[0] != package}
    above = {name for name in others if level_of(name) > HIGHEST_FOR_PROCESSES}

    # A Spark job may speak to a server, as any client does.
    assert {name for name in above if not is_client(name) or package != "pyspark_mq"} == set()


def is_client(module: str) -> bool:
    return module == "mq.client" or module.startswith("mq.client.")


def test_imports_go_in_no_circle(ours: dict[str, set[str]]) -> None:
    require_no_circle(ours)


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] for name in PATHS} - {""}))
def test_rooms_of_a_package_import_one_way(package: str, ours: dict[str, set[str]]) -> None:
    """A room counts as one, with all that is in it: its reader needs nothing that is built on
    it."""
    rooms: dict[str, set[str]] = {}
    for module, imported in ours.items():
        if (room := room_in(package, module)) is not None:
            others = {room_in(package, name) for name in imported} - {room, None}
            rooms.setdefault(room, set()).update(filter(None, others))

    require_no_circle(rooms)


def room_in(package: str, module: str) -> str | None:
    """Return what a module belongs to in a package: a package in it, or itself; None if it is not
    in there."""
    inside = module.removeprefix(f"{package}.")
    if module in (package, inside):
        return None
    return f"{package}.{inside.partition('.')[0]}"


def require_no_circle(imports: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way, name))
        if name not in done:
            for imported in sorted(imports.get(name, ())):
                visit(imported, (*way, name))
            done.add(name)

    for name in imports:
        visit(name, ())


def test_what_handles_files_knows_no_http(imports: dict[str, set[str]]) -> None:
    knowing = {
        module
        for module in server_modules()
        if level_of(module) <= HIGHEST_WITHOUT_HTTP
        and {name.partition(".")[0] for name in imports[module]} & HTTP_MODULES
    }

    assert knowing == set()


OPENS_FILES = {"os", "pathlib", "io", "shutil", "tempfile", "aiofiles"}


@pytest.mark.parametrize("module", [name for name in server_modules() if name.startswith("mq.web")])
def test_the_http_layer_knows_no_paths(module: str, imports: dict[str, set[str]]) -> None:
    called = {
        node.func.id
        for node in nodes_of(PATHS[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert {name.partition(".")[0] for name in imports[module]} & OPENS_FILES == set()
    assert "mq.disk.files" not in imports[module]
    assert "open" not in called


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("mq", HTTP_MODULES | {"asyncio", "structlog", "click", "mq.config"}),
        ("mq.spool.spool", HTTP_MODULES | {"asyncio", "click", "mq.store", "mq.web"}),
        # structlog loads asyncio.
        ("mq_mover.mover", HTTP_MODULES | {"mq.commit", "mq.store", "mq.web"}),
        ("mq_reaper.reaper", HTTP_MODULES | {"mq.commit", "mq.store", "mq.web"}),
        ("mq_mover.cli", HTTP_MODULES | {"mq.commit", "mq.store", "mq.web"}),
        ("mq_reaper.cli", HTTP_MODULES | {"mq.commit", "mq.store", "mq.web"}),
        ("vsqs.queue", HTTP_MODULES | {"asyncio", "structlog", "click"}),
        ("vsqs.cli", HTTP_MODULES | {"asyncio", "structlog", "mq.commit", "mq.store", "mq.web"}),
        ("mq.daemon.cli", HTTP_MODULES),
        ("mq_sqs.cli", HTTP_MODULES),
        ("mq.client", HTTP_MODULES | {"asyncio", "structlog", "click", "mq.store", "mq.web"}),
        # What a mover must not load, an executor must not either.
        ("mq.spool.root", HTTP_MODULES | {"mq.commit", "mq.store", "mq.web"}),
        # Each Python that Spark starts loads these.
        ("mq.spool.spark.claims", HTTP_MODULES | {"asyncio", "structlog", "click"}),
        ("mq.spool.spark.transactions", HTTP_MODULES | {"asyncio", "structlog", "click"}),
    ],
)
def test_importing_a_module_loads_no_more_than_it_needs(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )

    assert set(done.stdout.split()) & unwanted == set()
