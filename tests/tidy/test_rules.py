"""Rules of the house that a look at the source can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import REPOSITORY, all_files, nodes_of, package_files, parse

NAMES_THAT_SAY_NOTHING = {
    "utils", "helpers", "core", "base", "manager", "constants", "condition", "workspace", "upkeep",
    "room", "done", "find", "look", "show", "forks", "markers", "owner",
}  # fmt: skip

THE_DOOR_TO_THE_DISK = REPOSITORY / "mq" / "disk" / "files.py"
CHANGES = {
    "chmod", "chown", "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir", "mkfifo",
    "mknod", "remove", "removedirs", "removexattr", "rename", "renames", "replace", "rmdir",
    "setxattr", "symlink", "sync", "truncate", "unlink", "utime", "write",
}  # fmt: skip

CHANGES_NOTHING = {"os.removexattr(fd, _NO_ATTRIBUTE)"}

WITHOUT_A_CODE = re.compile(r"#\s*(?:type:\s*ignore(?!\[)|noqa(?!:\s*[A-Z]))")


def place(path: Path, node: ast.expr) -> str:
    return f"{path.relative_to(REPOSITORY)}:{node.lineno}"


@pytest.mark.parametrize("name", sorted(NAMES_THAT_SAY_NOTHING))
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    assert [path for path in all_files() if name in (path.stem, path.parent.name)] == []


def test_only_one_module_changes_the_file_system() -> None:
    others = [
        place(path, node)
        for path in package_files()
        if path != THE_DOOR_TO_THE_DISK
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr in CHANGES) in {("os", True), ("shutil", False)}
        and path.read_text().splitlines()[node.lineno - 1].strip() not in CHANGES_NOTHING
    ]

    assert others == []


MOVES = {"rename", "link", "unlink"}
ASK_THE_TABLE = {"spool", "_spool", "moves", "_moves"}
PAST_THE_TABLE = {
    "mq/spool/abilities.py": "works in a folder of its own, in which there is no message",
    "mq/disk/files.py": "the door itself",
    "mq/spool/spool.py": "asks the table in the line above",
    "mq/spool/queue/fresh_folder.py": "links the settings of a queue, which are no message",
    "mq/spool/queue/prepared.py": "links the first settings of a queue, which are no message",
    "mq/spool/moves.py": "asks the table in the line above",
    "mq/spool/network_files.py": "is the door too, where other hosts work on the root",
    "mq/spool/root_format.py": "links the files beside the folders, which are no messages",
    "pyspark_mq/pipeline/lake/folder.py": "renames files of a lake, which is no root",
    "pyspark_mq/pipeline/report/page_file.py": "replaces a page, which is in no root",
    "mq/daemon/sockets.py": "unlinks a unix socket",
    "mq/ctl/screen/display.py": "unlinks a file that it wrote for its user",
    "vsqs/folder.py": "works on a folder of another form",
    "vsqs/protocol.py": "works on a folder of another form",
}


def test_every_move_of_a_message_asks_the_table() -> None:
    past = {
        str(path.relative_to(REPOSITORY)): ast.unparse(node)
        for path in package_files()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in MOVES
        and ast.unparse(node.value).rpartition(".")[2] not in ASK_THE_TABLE
    }

    assert past.keys() == PAST_THE_TABLE.keys(), past


def test_no_coroutine_sleeps_by_blocking() -> None:
    blocking = [
        place(path, call)
        for path in all_files()
        for node in nodes_of(path)
        if isinstance(node, ast.AsyncFunctionDef)
        for call in calls_in(node)
        if ast.unparse(call.func) in ("time.sleep", "sleep")
    ]

    assert blocking == []


def calls_in(function: ast.AST) -> Iterator[ast.Call]:
    """Those that the function itself makes; a function inside it may run in a thread."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from calls_in(node)


def test_an_exception_from_a_rule_names_the_rule() -> None:
    unnamed = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in all_files()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if WITHOUT_A_CODE.search(line)
    ]

    assert unnamed == []


def test_a_second_has_its_nanoseconds_in_one_place() -> None:
    defined = [
        place(path, node.value)
        for path in package_files()
        for node in parse(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "1000000000"
    ]

    assert {each.partition(":")[0] for each in defined} == {"mq/config.py"}, defined


def test_a_limit_of_one_room_is_in_that_room() -> None:
    shared = REPOSITORY / "mq" / "config.py"
    limits = {name for name in names_assigned_in(shared) if name.isupper()}
    rooms = {name: set[str]() for name in limits}
    for path in package_files():
        for name in limits & names_imported_from("mq.config", path):
            rooms[name].add(room_of(path))

    assert {name: found for name, found in rooms.items() if len(found) < 2} == {}


def names_assigned_in(path: Path) -> set[str]:
    targets = [
        target
        for node in parse(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def names_imported_from(module: str, path: Path) -> set[str]:
    return {
        alias.name
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def room_of(path: Path) -> str:
    """`mq/store` for what is below that folder, `vsqs` for what is in another package."""
    package, *inside = path.relative_to(REPOSITORY).parts
    return f"{package}/{inside[0]}" if package == "mq" else package
