"""docs/pipeline.md lists every flag with its default, and --help needs no Spark."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from mq import __version__
from pyspark_mq.pipeline.cli import mq_pipeline
from tests.support.lone_root import Root
from tests.support.sources import REPOSITORY, read_table

DOCUMENT = "docs/pipeline.md"
PLACE = "## Where the queues are"


def options_of(name: str) -> list[click.Option]:
    command = mq_pipeline.commands[name]
    return [each for each in command.params if isinstance(each, click.Option)]


def default_of(option: click.Option) -> str:
    if option.required:
        return "required"
    if option.secondary_opts:
        return option.opts[0]
    if option.is_flag:
        return "off"
    if isinstance(option.default, str | int | float):
        return str(option.default) or "all"
    return "all" if option.multiple else "none"


@pytest.mark.parametrize("name", mq_pipeline.commands)
def test_every_flag_is_listed_with_its_default(name: str) -> None:
    place = {row[0] for row in read_table(DOCUMENT, PLACE)}
    listed = {row[0].partition(",")[0]: row[1] for row in read_table(DOCUMENT, f"## {name}")}
    options = {option.opts[0]: default_of(option) for option in options_of(name)}

    assert place <= options.keys()
    assert listed == {flag: options[flag] for flag in options.keys() - place}


def test_a_flag_of_the_place_is_listed_once() -> None:
    common = set.intersection(*({o.opts[0] for o in options_of(n)} for n in mq_pipeline.commands))

    assert {row[0] for row in read_table(DOCUMENT, PLACE)} == common


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=REPOSITORY
    )


def test_help_and_version_need_no_spark() -> None:
    without = "import sys; sys.modules['pyspark'] = None; sys.argv = ['mq-pipeline', {}]; "
    main = "from pyspark_mq.pipeline.cli import main; main()"

    for arguments in ("'--help'", "'--version'", "'archive', '--help'"):
        done = run(without.format(arguments) + main)
        assert (done.returncode, done.stderr) == (0, "")
    assert run(without.format("'--version'") + main).stdout == f"mq-pipeline {__version__}\n"


def test_without_spark_a_command_says_what_to_install() -> None:
    done = run(
        "import sys; sys.modules['pyspark'] = None; "
        "sys.argv = ['mq-pipeline', 'report', '--root=/nowhere']; "
        "from pyspark_mq.pipeline.cli import main; main()"
    )

    assert done.returncode == 71
    assert "mq-pipeline: mq needs pyspark, which is not installed" in done.stderr
    assert "pip install 'mq-server[spark]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["report"], "give one of --root and --url"),
        (["report", "--root=/a", "--url=http://b"], "give one of --root and --url"),
        (["report", "--url=http://b"], "with --url name the queues"),
        (["archive", "--root=/a"], "Missing option '--queue'"),
        (["archive", "--root=/a", "--queue=", "--lake=b"], "--queue is empty"),
        (["archive", "--root=/a", "--queue=,", "--lake=b"], "option queue: empty"),
        (["replay", "--name=a b"], "Invalid value for '--name': 'a b' is not a name"),
        (["load", "--name=../b"], "Invalid value for '--name': '../b' is not a name"),
        (["load", "--name="], "Invalid value for '--name': '' is not a name"),
        (["load", f"--name={'n' * 71}"], "is not a name: it has 1 to 70 letters"),
        (["replay", "--root=/", "--lake=/a", "--to=b", "--since=soon"], "--since 'soon' is not"),
        (["replay", "--root=/", "--lake=/a", "--to=b", "--queue=c,d"], "--queue 'c,d' is not"),
        (["replay", "--root=/", "--lake=/a", "--to=b*"], "--to 'b*': name one queue"),
        (["load", "--root=/", "--to=b.fifo", "--format=csv", "a"], "b.fifo is a FIFO queue"),
        (["archive", "--root=/", "--queue=a", "--lake=b", "--group=c d"], "option group: "),
        (["archive", "--url=http://b", "--queue=a", "--lake=b"], "option staging: missing"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said_before_spark_starts(
    arguments: list[str], text: str
) -> None:
    done = run(
        f"import sys; sys.argv = ['mq-pipeline', *{arguments}]; "
        "from pyspark_mq.pipeline.cli import main; main()"
    )

    assert done.returncode == 2
    assert text in done.stderr
    assert "WARN" not in done.stderr


def test_a_token_of_the_environment_is_for_servers_alone(
    monkeypatch: pytest.MonkeyPatch, lone_root: Root
) -> None:
    monkeypatch.setenv("MQ_CLIENT_TOKEN_FILE", "/run/secrets/token")
    command = "import sys; sys.argv = ['mq-pipeline', 'archive', '--root={}', '--queue=nothing', "
    command += "'--lake=/nowhere', {}]; from pyspark_mq.pipeline.cli import main; main()"

    done = run(command.format(lone_root.path, ""))
    assert "there is no queue nothing" in done.stderr
    done = run(command.format(lone_root.path, "'--token-file=/run/secrets/token'"))
    assert "option tokenFile: it belongs to the option url" in done.stderr


def test_a_spark_that_does_not_start_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, lone_root: Root
) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "nonsense")

    done = run(
        f"import sys; sys.argv = ['mq-pipeline', 'report', '--root={lone_root.path}']; "
        "from pyspark_mq.pipeline.cli import main; main()"
    )

    assert done.returncode == 75
    assert "Invalid maximum heap size: -Xmxnonsense" in done.stderr
    assert "mq-pipeline: Spark did not start: Java gateway process exited" in done.stderr
    assert "Traceback" not in done.stderr
