"""The command line `mq-pipeline`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from mq import __version__
from mq.command.flags import FILE, Seconds, exit_codes_text, run
from mq.config import CLAIM_MESSAGES
from mq.errors import EXIT_CODES, CommandFailed, ExitCode, InvalidName, MQError, QueueNotFound
from pyspark_mq import why_not_importable

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PIPELINE_EXIT_CODES = EXIT_CODES | {
    ExitCode.OK: "done",
    ExitCode.TRY_AGAIN: "the job failed; run it again, and it goes on",
}


def place_flags(command: F) -> F:
    """Add --root, --url and the flags that belong to them, as the parameter `place`."""

    @wraps(command)
    def with_place(
        *,
        root: Path | None,
        url: str | None,
        staging: Path | None,
        token_file: Path | None,
        ca_file: Path | None,
        **fields: Any,
    ) -> object:
        from pyspark_mq.pipeline.places import QueuePlace

        if (root is None) == (url is None):
            raise click.UsageError("give one of --root and --url: where the queues are")
        place = QueuePlace(_whole(root), url, _whole(staging), _whole(token_file), _whole(ca_file))
        return command(place=place, **fields)

    flags = (
        click.option("--root", type=FILE,
                     help="The root that has the queues."),
        click.option("--url",
                     help="In place of --root: servers of one root, with commas between."),
        click.option("--staging", type=FILE,
                     help="With --url: a folder of this job's own, to be kept between runs."),
        click.option("--token-file", type=FILE, envvar="MQ_CLIENT_TOKEN_FILE", show_envvar=True,
                     help="With --url: a file that holds a token."),
        click.option("--ca-file", type=FILE, help="With --url: certificates to trust, in PEM."),
    )  # fmt: skip
    decorated = cast(F, with_place)
    for flag in reversed(flags):
        decorated = flag(decorated)
    return decorated


def _whole(path: Path | None) -> str | None:
    """Return the whole path, because Spark's processes run in other folders."""
    return None if path is None else str(path.absolute())


@click.group(
    "mq-pipeline",
    epilog=exit_codes_text(PIPELINE_EXIT_CODES),
    context_settings={"max_content_width": 100},
)
@click.version_option(__version__, message="mq-pipeline %(version)s")
def mq_pipeline() -> None:
    """Move messages between queues and files with Spark, each once.

    Every command can be stopped or killed at any moment. Run it again with the same arguments, and
    it goes on. It starts a Spark on this machine, or runs in the one of spark-submit.
    """


@mq_pipeline.command()
@place_flags
@click.option(
    "--queue",
    "queues",
    required=True,
    help="Names, with --root also patterns, with commas between.",
)
@click.option("--lake", required=True, help="The folder of the lake, a path or an address.")
@click.option(
    "--once/--continuous",
    "is_once",
    default=True,
    show_default=True,
    help="End when what was ready at the start is in the lake, or go on.",
)
@click.option(
    "--every",
    type=Seconds(0.1, 86_400),
    default=10.0,
    show_default=True,
    help="With --continuous: seconds between two batches.",
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=CLAIM_MESSAGES,
    show_default=True,
    help="How many messages a batch has at most.",
)
@click.option("--schema", help="The columns of JSON bodies, as 'item string, price double'.")
@click.option(
    "--group",
    default="archive",
    show_default=True,
    help="The name of this archive among those that read the same queues.",
)
@click.option(
    "--takeover",
    is_flag=True,
    help="Take the group over, when the lake it belonged to is given up.",
)
def archive(place: Any, every: float, batch: int, takeover: bool, **asked: Any) -> None:
    """Move messages from queues to Parquet files by queue and day."""
    spark, line = _begin("archive")
    from pyspark_mq.pipeline.archive import ArchiveJob
    from pyspark_mq.pipeline.archive import archive as run_archive

    job = ArchiveJob(every_seconds=every, batch_messages=batch, takes_over=takeover, **asked)
    line.end(_working(lambda: run_archive(spark, place, job, line)))


@mq_pipeline.command()
@place_flags
@click.option("--lake", required=True, help="The folder of the lake.")
@click.option("--to", required=True, help="The queue that gets the messages.")
@click.option("--queue", "queues", multiple=True, help="Only messages of this queue; repeatable.")
@click.option("--since", help="Only those published from then on, as '2026-11-22 08:00', in UTC.")
@click.option("--until", help="Only those published before, in UTC.")
@click.option("--where", help="Only rows for which this SQL expression is true.")
@click.option(
    "--keep-ids",
    "keeps_ids",
    is_flag=True,
    help="Publish under the old ids, to a queue that has none of them yet.",
)
@click.option("--name", help="Of this replay; another name replays the same again.")
def replay(place: Any, queues: tuple[str, ...], **asked: Any) -> None:
    """Publish messages of a lake to a queue, each once."""
    spark, line = _begin("replay")
    from pyspark_mq.pipeline.replay import ReplayJob
    from pyspark_mq.pipeline.replay import replay as run_replay

    job = ReplayJob(queues=queues, **asked)
    line.end(*_told(_working(lambda: run_replay(spark, place, job, line)), job.write_name))


@mq_pipeline.command()
@place_flags
@click.argument("paths", nargs=-1, required=True)
@click.option("--to", required=True, help="The queue that gets the messages.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "csv", "json"]),
    required=True,
    help="Of the files; json is an object a line.",
)
@click.option(
    "--body",
    help="The column that is the message. Default: the column value; without one the row as JSON.",
)
@click.option("--name", help="Of this load; another name loads the same again.")
def load(place: Any, paths: tuple[str, ...], **asked: Any) -> None:
    """Publish the rows of files to a queue, each once."""
    spark, line = _begin("load")
    from pyspark_mq.pipeline.replay import LoadJob
    from pyspark_mq.pipeline.replay import load as run_load

    job = LoadJob(paths=paths, **asked)
    line.end(*_told(_working(lambda: run_load(spark, place, job, line)), job.write_name))


@mq_pipeline.command()
@place_flags
@click.option(
    "--queue", "queues", default="", help="Names, with --root also patterns; default all."
)
@click.option("--html", type=FILE, help="Write a page with plots to this file.")
def report(place: Any, queues: str, html: Path | None) -> None:
    """Show backlog, ages, receive counts and dead letters; takes nothing."""
    if place.url is not None and not queues:
        raise click.UsageError("with --url name the queues: --queue orders,returns")
    from mq.spool.files import Files
    from pyspark_mq.pipeline.page_file import check_page_file, write_page

    if html is not None:
        check_page_file(html)
    spark, _ = _begin("report")
    from pyspark_mq.pipeline.page import page_of
    from pyspark_mq.pipeline.report import table_text, take_report

    taken = _working(lambda: take_report(spark, place, queues))
    click.echo(table_text(taken))
    if html is not None:
        write_page(html, page_of(taken), Files())
        click.echo(f"report: {html.absolute()}", err=True)


def _begin(command: str) -> tuple[Any, Any]:
    """Return the session and the line of progress. Raises CommandFailed."""
    try:
        from pyspark_mq.pipeline.session import open_session
    except ImportError as error:
        raise CommandFailed(ExitCode.SYSTEM, why_not_importable(error)) from None
    from pyspark_mq.pipeline.progress import ProgressLine

    return open_session(command), ProgressLine(command, sys.stderr)


def _working(job: Callable[[], T]) -> T:
    """Run a job. Raises CommandFailed with the cause, which Spark wraps in many lines."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pyspark_mq.options import BadOption
    from pyspark_mq.pipeline.archive import reason_of

    try:
        return job()
    except (BadOption, InvalidName, QueueNotFound) as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from None
    except MQError as error:
        raise CommandFailed(ExitCode.TRY_AGAIN, str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise CommandFailed(ExitCode.TRY_AGAIN, reason_of(error)) from None


def _told(count: int, name: str) -> tuple[int, str]:
    """Return what the last line says."""
    return count, "" if count else f", {name} was done before; --name does it under another one"


def main() -> None:
    # A shell starts background jobs with SIGINT ignored, so they could not be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    run(mq_pipeline, PIPELINE_EXIT_CODES)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
