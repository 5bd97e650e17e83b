"""`mqctl exec`: any command as a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from shutil import which
from typing import TYPE_CHECKING

import click

from mq.command.flags import Seconds
from mq.config import CLIENT_RETRY_SECONDS, MAX_VISIBILITY_SECONDS
from mq.ctl.arguments import CONTENT_TYPE, QUEUE, queue_argument, then_option
from mq.ctl.commands.command_runner import CommandRunner
from mq.ctl.common_flags import credentials, everywhere, flags_of
from mq.ctl.screen import display
from mq.names import QueueName, dead_letter_queue, parse_queue_name

if TYPE_CHECKING:
    from mq.client.blocking.session import Session


class ExecCommand(click.Command):
    """A command that runs another one, whose flags may be taken for its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_marked = "--" in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if is_marked:
                raise
            name = error.option_name
            text = f"No such option {name!r}; write -- before COMMAND and its flags."
            raise click.NoSuchOption(name, text, error.possibilities, ctx) from None


@click.command(name="exec", cls=ExecCommand)
@queue_argument
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@then_option
@click.option("--to", "target", type=QUEUE, metavar="QUEUE",
              help="Publish what COMMAND prints to that queue, in the same step in which the "
              "message is removed. If it prints nothing, there is nothing to publish.")  # fmt: skip
@click.option("--content-type", "content_type", type=CONTENT_TYPE, metavar="TYPE",
              help="With --to, what COMMAND prints, for example text/plain.")  # fmt: skip
@click.option("-c", "--concurrency", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="How many commands run at a time.")  # fmt: skip
@click.option("--visibility", type=Seconds(0, MAX_VISIBILITY_SECONDS, min_open=True),
              help="Seconds until a message returns if exec is killed; it is renewed while its "
              "command runs.  [default: the queue's setting, or else the server's]")  # fmt: skip
@click.option("--dead-after", type=click.IntRange(1), metavar="N",
              help="Move a message that failed to the dead letters once it has been received N "
              "times.  [default: as the queue's max-receives]")  # fmt: skip
@click.option("--max", "limit", type=click.IntRange(1), metavar="N",
              help="End after N messages.  [default: no limit]")  # fmt: skip
@click.option("--until-empty", is_flag=True, help="End when no message is ready and no command "
              "runs. Leased and delayed messages are not waited for.")  # fmt: skip
@everywhere
@click.pass_context
def execute(
    context: click.Context,
    *,
    queue: QueueName,
    command: tuple[str, ...],
    then: tuple[QueueName, ...],
    target: QueueName | None,
    content_type: str | None,
    concurrency: int,
    visibility: float | None,
    dead_after: int | None,
    limit: int | None,
    until_empty: bool,
) -> None:
    """Run COMMAND for each message of QUEUE, until SIGTERM or SIGINT.

    With --then it takes from other queues too, when those before them have no message.

    Write -- before COMMAND. It gets the body on stdin, and MQ_QUEUE, MQ_MESSAGE_ID,
    MQ_RECEIVE_COUNT, MQ_PUBLISHED_AT, MQ_CONTENT_TYPE and MQ_PROPERTIES, a JSON object, in its
    environment. If it exits with 0, the message is removed for good. With 75, or killed by a
    signal, it returns in a second; with another status after about a second, and after twice
    as long each time, up to five minutes. With --to, what it prints goes on to the next queue:
    either that is published and the message removed, or neither.
    """
    flags = flags_of(context)
    if flags.root is not None:
        raise click.UsageError("exec waits for messages and renews leases: it needs a server; "
                               "use --url")  # fmt: skip
    if content_type is not None and target is None:
        raise click.UsageError("--content-type describes what --to publishes; give --to too")
    _require_command(command[0])
    from mq.client import operations
    from mq.client.blocking.worker import Worker
    from mq.client.errors import ClientError
    from mq.ctl.ways.connect import failure_of, open_session

    session = open_session(flags.url, credentials(flags), CLIENT_RETRY_SECONDS)
    runner = CommandRunner(command)
    has_ended = False
    try:
        queues = [queue, *then]
        if target is not None:
            session.run(operations.count(session.context, target))  # It must be there.
            runner.hand_over_to(target, content_type)
        if dead_after is not None:
            dead_letters = {each: _make_dead_letters(session, each) for each in queues}
            runner.bury_after(dead_after, dead_letters)
        worker = Worker(session, queues, runner.handle, concurrency, visibility, limit=limit)
        run = worker.run_until_empty if until_empty else worker.run
        run()
        has_ended = True
    except ClientError as error:
        raise failure_of(error, flags.url, "--url") from error
    finally:
        session.close()
        counts = runner.counts()
        if has_ended or any(counts.values()):
            display.say(flags.as_json, {"queue": queue, **counts}, _counts_text(counts))


def _require_command(command: str) -> None:
    if which(command) is None:
        if which(command, os.F_OK) is not None:
            raise click.UsageError(f"{command!r} is not executable")
        hint = "; write -- sh -c and then a line of the shell" if " " in command else ""
        raise click.UsageError(f"there is no command {command!r}{hint}")


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items())


def _make_dead_letters(session: Session, queue: QueueName) -> QueueName:
    """Return the queue for the dead letters of `queue`, and make it if it is missing."""
    from mq.client import operations

    found = session.run(operations.read_settings(session.context, queue)).get("dead-letters")
    dead = dead_letter_queue(queue) if found is None else parse_queue_name(found)
    if dead is None:
        raise click.UsageError(f"--dead-after: {queue} holds dead letters, which do not die again")
    session.run(operations.create_queue(session.context, dead))
    return dead
