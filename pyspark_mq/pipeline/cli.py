"""The command line `mq-pipeline`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import click

from mq import __version__
from mq.command.flags import FILE, Parsed, Seconds, parse_path
from mq.command.running import EXIT_CODES, exit_codes_text, run
from mq.errors import ExitCode
from pyspark_mq.options.options import CLAIM_MESSAGES
from pyspark_mq.pipeline.place_flags import place_flags
from pyspark_mq.pipeline.running.stopping import end_children, raise_on_signals, run_until_stopped

T = TypeVar("T")

_AGAIN = "interrupted: run it again to go on"


def _path_or_address(text: str) -> str:
    """Return a path, which is made whole because a write is named by it, or an address such as
    hdfs://... for Spark."""
    return text if "://" in text else os.path.abspath(parse_path(text))


def _write_name(text: str) -> str:
    """Return the name of a write, which becomes that of a folder after the name of its command."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,70}", text):
        raise ValueError(
            f"{text!r} is not a name: it has 1 to 70 letters, digits, '_', '.' and '-'"
        )
    return text


_PATH = Parsed("path", _path_or_address)
_NAME = Parsed("text", _write_name)

PIPELINE_EXIT_CODES = EXIT_CODES | {
    ExitCode.OK: "done",
    ExitCode.USAGE: "a flag or argument is wrong, or does not fit what it names",
    ExitCode.TRY_AGAIN: "the job failed; when the cause is gone, run it again, and it goes on",
}


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
    help="Names, separated by commas; with --root also patterns.",
)
@click.option(
    "--lake", type=_PATH, required=True, help="The folder of the lake, a path or an address."
)
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
    help="Take the group over from a lake that is given up.",
)
def archive(place: Any, every: float, batch: int, takeover: bool, **asked: Any) -> None:
    """Move messages from queues to Parquet files by queue and day."""
    from pyspark_mq.options.options import STREAM_READ
    from pyspark_mq.pipeline.jobs.archive import ArchiveJob
    from pyspark_mq.pipeline.jobs.archive import archive as run_archive
    from pyspark_mq.pipeline.running.causes import job_errors

    job = ArchiveJob(every_seconds=every, batch_messages=batch, takes_over=takeover, **asked)
    if not job.queues:
        raise click.UsageError("--queue is empty; with --root '*' names all queues")
    with job_errors():
        place.require_queues(job.queues, STREAM_READ, group=job.group)
    spark, line = _begin("archive")
    stopping = Event()

    def work() -> None:
        messages = run_archive(spark, place, job, line, stopping)
        line.end(messages, f", {_AGAIN}" if stopping.is_set() else "")

    _working(spark, work, stopping.set)


@mq_pipeline.command()
@place_flags
@click.option("--lake", type=_PATH, required=True, help="The folder of the lake.")
@click.option("--to", required=True, help="The queue that gets the messages.")
@click.option("--queue", "queues", multiple=True, help="Only messages of this queue; repeatable.")
@click.option("--since", help="Only those published from then on, like '2026-11-22 08:00', in UTC.")
@click.option("--until", help="Only those published before, in UTC.")
@click.option("--where", help="Only rows for which this SQL expression is true.")
@click.option(
    "--keep-ids",
    "keeps_ids",
    is_flag=True,
    help="Publish under the old ids. A message that the queue still has is not published again.",
)
@click.option(
    "--name", type=_NAME, help="A name for this replay; another name replays the same again."
)
def replay(place: Any, queues: tuple[str, ...], **asked: Any) -> None:
    """Publish messages of a lake to a queue, each once."""
    from pyspark_mq.pipeline.jobs.replay import ReplayJob
    from pyspark_mq.pipeline.jobs.replay import replay as run_replay
    from pyspark_mq.pipeline.running.causes import job_errors

    job = ReplayJob(queues=queues, **asked)
    with job_errors():
        job.period()
        place.require_target(job.to)
    spark, line = _begin("replay")
    _publish(spark, line, place, job.write_name, lambda: run_replay(spark, place, job, line))


@mq_pipeline.command()
@place_flags
@click.argument("paths", type=_PATH, nargs=-1, required=True)
@click.option("--to", required=True, help="The queue that gets the messages.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "csv", "json"]),
    required=True,
    help="The format of the files; json has one object a line.",
)
@click.option(
    "--body",
    help="The column that is the message. Default: the column value; without one the row as JSON.",
)
@click.option("--name", type=_NAME, help="A name for this load; another name loads the same again.")
def load(place: Any, paths: tuple[str, ...], **asked: Any) -> None:
    """Publish the rows of files to a queue, each once."""
    from pyspark_mq.pipeline.jobs.load import LoadJob
    from pyspark_mq.pipeline.jobs.load import load as run_load
    from pyspark_mq.pipeline.running.causes import job_errors

    job = LoadJob(paths=paths, **asked)
    with job_errors():
        place.require_target(job.to)
    spark, line = _begin("load")
    _publish(spark, line, place, job.write_name, lambda: run_load(spark, place, job, line))


@mq_pipeline.command()
@place_flags
@click.option(
    "--queue", "queues", default="", help="Names, with --root also patterns; default all."
)
@click.option("--html", type=FILE, help="Write a page with plots to this file.")
def report(place: Any, queues: str, html: Path | None) -> None:
    """Show backlog, ages, receive counts and dead letters. It takes nothing."""
    if place.url is not None and not queues:
        raise click.UsageError("with --url name the queues: --queue orders,returns")
    from mq.disk.files import Files
    from pyspark_mq.options.options import BATCH_READ
    from pyspark_mq.pipeline.report.page_file import check_page_file, write_page
    from pyspark_mq.pipeline.running.causes import job_errors

    if html is not None:
        check_page_file(html)
    with job_errors():
        place.require_queues(queues, BATCH_READ)
    spark, line = _begin("report")
    from pyspark_mq.pipeline.report.page import page_of
    from pyspark_mq.pipeline.report.report import table_text, take_report

    taken = _working(spark, lambda: take_report(spark, place, queues, line), _cancel(spark, line))
    line.end(taken.messages)
    click.echo(table_text(taken))
    if html is not None:
        write_page(html, page_of(taken), Files())
        click.echo(f"report: {html.absolute()}", err=True)


def _begin(command: str) -> tuple[Any, Any]:
    """Return the session and the line of progress. Raises StartRefused without a Java, and
    CommandFailed."""
    from pyspark_mq.pipeline.running.causes import starting
    from pyspark_mq.pipeline.running.progress import ProgressLine
    from pyspark_mq.pipeline.session import open_session

    line = ProgressLine(command, sys.stderr)

    def stop() -> None:
        line.say(_AGAIN)
        end_children()

    with starting():
        return run_until_stopped(lambda: open_session(command), stop), line


def _publish(spark: Any, line: Any, place: Any, name: str, job: Callable[[], int]) -> None:
    """Run a job that publishes, and say how that ended."""
    count = _working(spark, job, _cancel(spark, line))
    how = ""
    if not count and place.has_written(name):
        how = f", {name} was done before; --name does it under another one"
    elif not count:
        how = ", there was nothing to publish"
    line.end(count, how)


def _cancel(spark: Any, line: Any) -> Callable[[], None]:
    """Return what stops a job that is all or nothing."""

    def cancel() -> None:
        line.say(_AGAIN)
        spark.sparkContext.cancelAllJobs()

    return cancel


def _working(spark: Any, job: Callable[[], T], stop: Callable[[], object]) -> T:
    """Run a job until it ends or a signal stops it. Raises CommandFailed."""
    from pyspark_mq.pipeline.running.causes import job_errors
    from pyspark_mq.pipeline.session import activate

    def work() -> T:
        activate(spark)
        return job()

    raise_on_signals()
    with job_errors(spark):
        return run_until_stopped(work, stop)


def main() -> None:
    raise_on_signals()
    run(mq_pipeline, PIPELINE_EXIT_CODES)
