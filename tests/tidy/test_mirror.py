"""Where a module is tested: in the file of its name, or where the list says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.sources import REPOSITORY, imports_of, package_files, parse, python_files

TESTS = REPOSITORY / "tests"
FOLDERS = {
    "mq/web": "http",
    "mq": ".",
    "mq_mover": "mover",
    "mq_reaper": "reaper",
    "mq_sqs": "sqs",
    "pyspark_mq": "spark",
    "vsqs": "vsqs",
}
"""Where the tests of a package are, below `tests`. What is tested over a socket is in a folder for
each endpoint below `http`."""

ELSEWHERE = {
    "admin/test_metrics.py": "mq/metrics/histogram mq/metrics/tally mq/store/counts"
    " mq_mover/metrics",
    "admin/test_endpoints.py": "mq/web/durations",
    "admin/test_health.py": "mq/spool/trouble mq/store/probe",
    "admin/test_page.py": "mq/admin/live",
    "client": "mq/client/aio mq/client/blocking mq/client/received",
    "client/test_access.py": "mq/client/problems",
    "client/test_messages.py": "mq/client/answers mq/client/settings",
    "client/test_operations.py": "mq/client/by_id mq/client/moves mq/client/publishing",
    "client/test_retries.py": "mq/client/wire",
    "client/test_wrong_addresses.py": "mq/client/connection",
    "commit/test_ends.py": "mq/commit/awaited mq/commit/operation",
    "commit/test_group.py": "mq/commit/committer mq/commit/committer_thread",
    "commit/test_loop_rounds.py": "mq/commit/reopening",
    "commit/test_needs.py": "mq/commit/blocking mq/commit/engine",
    "commit/test_pipelined_rounds.py": "mq/commit/barrier_thread",
    "crash/test_publish_against_deletion.py": "mq/store/queue/queues",
    "ctl/ways/test_access.py": "mq/ctl/ways/connect",
    "ctl/ways/test_by_root.py": "mq/ctl/ways/runner",
    "ctl/ways/test_inspect.py": "mq/ctl/ways/messages",
    "ctl/test_ls.py": "mq/ctl/screen/display",
    "ctl/test_producing.py": "mq/ctl/commands/sending",
    "ctl/test_ways.py": "mq/ctl/arguments mq/ctl/common_flags",
    "ctl/commands/test_benching.py": "mq/ctl/bench",
    "daemon/test_process.py": "mq/daemon/cli mq/daemon/shared_flags",
    "daemon/test_start.py": "mq/daemon/server",
    "daemon/test_tls.py": "mq/web/connections/handshakes",
    "fsck/test_damage.py": "mq/fsck/suspect",
    "fsck/test_races.py": "mq/fsck/check",
    "fsck/test_strays.py": "mq/fsck/tree mq/fsck/walk",
    "http/publish/test_also_setting.py": "mq/store/publishing/readers",
    "http/publish/test_batch.py": "mq/web/endpoints/batch_lines mq/web/endpoints/batches",
    "http/publish/test_move.py": "mq/web/burials mq/web/endpoints/moving",
    "http/publish/test_own_ids.py": "mq/store/publishing/own_id mq/store/publishing/twins",
    "http/publish/test_publish.py": "mq/web/endpoints/publishing mq/store/free_space",
    "http/queues": "mq/web/endpoints/queues",
    "http/receive/test_peek.py": "mq/web/endpoints/peeking",
    "http/receive/test_release.py": "mq/store/release",
    "http/receive/test_receive.py": "mq/web/endpoints/receiving mq/web/downloads"
    " mq/store/receiving/receive mq/store/receiving/oldest",
    "http/connections/test_early_heads.py": "mq/web/connections/head_timer",
    "http/remove": "mq/web/endpoints/removing",
    "http/connections/test_gone_clients.py": "mq/web/connections/presence",
    "http/connections/test_http_server.py": "mq/web/connections/connection",
    "http/quick/test_known_heads.py": "mq/web/connections/head_memory",
    "http/quick/test_way.py": "mq/web/connections/quick_connection"
    " mq/web/connections/whole_requests mq/web/quick/removing mq/web/quick/taken_request",
    "http/test_routes.py": "mq/web/api mq/web/problems",
    "spark/pipeline/test_jobs.py": "pyspark_mq/pipeline/places pyspark_mq/pipeline/jobs/publishing",
    "spark/pipeline/test_cli.py": "pyspark_mq/pipeline/place_flags",
    "spark/pipeline/test_odd_input.py": "pyspark_mq/pipeline/json_texts",
    "spark/pipeline/test_killed_commands.py": "pyspark_mq/pipeline/session",
    "spark/pipeline/lake/test_lake.py": "pyspark_mq/pipeline/lake/folder"
    " pyspark_mq/pipeline/lake/placing",
    "spark/options/test_options.py": "pyspark_mq/options/addresses"
    " pyspark_mq/options/option_values",
    "spark/reading/test_batch_read.py": "pyspark_mq/job_root pyspark_mq/reading/balance",
    "spark/reading/test_stream_read.py": "pyspark_mq/source",
    "spool/spark/test_claims.py": "mq/spool/spark/marker_files",
    "spool/spark/test_transactions.py": "mq/spool/spark/jobs",
    "disk/test_calls.py": "mq/disk/files mq/disk/status",
    "store/moving/test_move_races.py": "mq/store/moving/move_many",
    "spool/message/test_held.py": "mq/spool/message/seal",
    "spool/test_moves.py": "mq/spool/spool",
    "spool/test_network_files.py": "mq/disk/byte_locks",
    "spool/test_planted.py": "mq/spool/disk_errors",
    "sqs/test_cli.py": "mq_sqs/server",
    "mover/test_two_roots.py": "mq_mover/folders",
    "sqs/fifo/test_in_flight.py": "mq/store/background",
    "sqs/fifo/test_loading.py": "mq_sqs/fifo/fifo_queue",
    "sqs/fifo/test_sending.py": "mq_sqs/fifo/parameters",
    "sqs/operations/test_receiving.py": "mq_sqs/operations/shown",
    "sqs/operations/test_sending.py": "mq_sqs/operations/outgoing",
    "sqs/signing/test_signatures.py": "mq_sqs/signing/signature_fields",
    "store/index/test_ready_queues.py": "mq/store/indexing",
    "store/test_maintenance.py": "mq/store/opening",
    "store/test_open_files.py": "mq/store",
    "store/peeking/test_peek.py": "mq/store/peeking/peeked_message",
    "store/peeking/test_peek_hidden.py": "mq/spool/queue/hidden",
    "store/test_hidden_counts.py": "mq/store/shared_looks",
    "store/test_store.py": "mq/store/shared_state mq/store/publishing/publisher"
    " mq/store/receiving/received_message",
    "store/receiving/test_taking.py": "mq/store/receiving/usual",
    "store/removing/test_joint_removals.py": "mq/store/joint",
    "store/removing/test_remove.py": "mq/store/removing/remove_many",
    "tidy/test_documented.py": "mq/config mq/errors mq_mover/cli mq_reaper/cli",
    "vsqs/test_documents.py": "vsqs/limits",
    "vsqs/test_commands.py": "vsqs/arguments vsqs/cli vsqs/pump vsqs/rate vsqs/sink",
    "vsqs/test_folder.py": "vsqs/opening",
    "vsqs/test_protocol.py": "vsqs/names vsqs/queue",
    "vsqs/test_sharing.py": "vsqs/shared",
    "vsqs/test_waiting.py": "vsqs/bell vsqs/index vsqs/listing",
    "ctl/commands/test_top.py": "mq/ctl/screen/live_screen mq/ctl/ways/removals",
    "ctl/commands/test_transfer.py": "mq/ctl/commands/removing vsqs/transfer",
}
"""Modules without a test of their name, by the file or folder that tests them. Better is a test of
their name."""


def modules() -> list[str]:
    """Return the modules as the list writes them."""
    paths = (path.relative_to(REPOSITORY) for path in package_files())
    return [str(path.with_suffix("")) for path in paths if not path.stem.startswith("__")]


def files_of_its_name(module: str) -> list[Path]:
    """`test_index.py` for index, and `test_index_at_start.py`."""
    package = next(package for package in FOLDERS if module.startswith(f"{package}/"))
    folder = TESTS / FOLDERS[package] / Path(module).relative_to(package).parent
    found = folder.rglob if package == "mq/web" else folder.glob
    name = Path(module).name
    return [*found(f"test_{name}.py"), *found(f"test_{name}_*.py")]


def listed(module: str) -> list[str]:
    """The module itself, or the package that it is in."""
    names = {module, str(Path(module).parent)}
    return [test for test, tested in ELSEWHERE.items() if names & set(tested.split())]


def test_each_module_has_a_test_of_its_name_or_is_listed() -> None:
    assert [name for name in modules() if not files_of_its_name(name) and not listed(name)] == []


@pytest.mark.parametrize("test", ELSEWHERE)
def test_the_list_names_what_is_there_and_has_no_test_of_its_name(test: str) -> None:
    packages = {str(Path(module).parent) for module in modules()}

    assert (TESTS / test).exists()
    for module in ELSEWHERE[test].split():
        assert module in packages or (module in modules() and not files_of_its_name(module)), module


def test_nothing_is_imported_from_a_conftest_or_a_test() -> None:
    """What tests share is in tests/support."""
    importers = [
        f"{path.relative_to(REPOSITORY)}: {module}"
        for path in python_files(TESTS)
        for module in imports_of(path)
        if module.startswith("tests.")
        and module.rpartition(".")[2].startswith(("conftest", "test_"))
    ]

    assert importers == []


def test_each_test_is_in_a_file_that_is_collected() -> None:
    lost = [
        str(path.relative_to(REPOSITORY))
        for path in python_files(TESTS)
        if any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            for node in parse(path).body
        )
        and not (path.name.startswith("test_") and (path.parent / "__init__.py").exists())
    ]

    assert lost == []


def test_make_crash_runs_whatever_is_marked_for_it() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    command = re.search(r"\ncrash: .*\n\t@.* -m pytest (.*-m crash_long.*)\n", makefile)
    assert command is not None
    named = [word for word in command[1].split() if word.startswith("tests")] or ["tests"]
    marked = [
        path for path in python_files(TESTS) if re.search(r"mark\.crash_long", path.read_text())
    ]

    assert [
        str(path.relative_to(REPOSITORY))
        for path in marked
        if not any(path.is_relative_to(REPOSITORY / folder) for folder in named)
    ] == []
