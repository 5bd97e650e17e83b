"""`mqctl exec`: any command as a worker."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from shutil import which
from typing import TYPE_CHECKING, BinaryIO

import click

from mq.command.flags import Seconds
from mq.command.stdout import printable
from mq.config import CLIENT_RETRY_SECONDS, MAX_VISIBILITY_SECONDS
from mq.ctl.arguments import queue_argument, then_option
from mq.ctl.common_flags import credentials, everywhere, flags_of
from mq.ctl.screen import display
from mq.names import MAX_DEAD_REASON_BYTES, QueueName, dead_letter_queue, parse_queue_name

if TYPE_CHECKING:
    from mq.client.blocking.message import Message
    from mq.client.blocking.session import Session

_TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h: the command cannot do it now."""

_PAUSE_SECONDS = 1.0
"""How long a message is hidden that is given back without a failure."""

_LOOK_SECONDS = 1.0
"""How often a running command and its lease are looked at."""

_PR_SET_PDEATHSIG = 1
_KILL = int(signal.SIGKILL)


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
    concurrency: int,
    visibility: float | None,
    dead_after: int | None,
    limit: int | None,
    until_empty: bool,
) -> None:
    """Run COMMAND for each message of QUEUE, until SIGTERM or SIGINT.

    With --then it works off other queues as well, whenever those before have nothing.

    Write -- before COMMAND. It gets the body on stdin, and MQ_QUEUE, MQ_MESSAGE_ID,
    MQ_RECEIVE_COUNT, MQ_PUBLISHED_AT, MQ_CONTENT_TYPE and MQ_PROPERTIES, a JSON object, in its
    environment. If it exits with 0, the message is removed for good. With 75, or killed by a
    signal, it returns in a second; with another status after about a second, and after twice
    as long each time, up to five minutes.
    """
    flags = flags_of(context)
    if flags.root is not None:
        raise click.UsageError("exec waits for messages and renews leases: it needs a server; "
                               "use --url")  # fmt: skip
    _require_command(command[0])
    from mq.client.blocking.worker import Worker
    from mq.client.errors import ClientError
    from mq.ctl.ways.connect import failure_of, open_session

    session = open_session(flags.url, credentials(flags), CLIENT_RETRY_SECONDS)
    runner = CommandRunner(command)
    has_ended = False
    try:
        queues = [queue, *then]
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


class CommandRunner:
    """Runs a command for each message that a worker hands to it, in any of its threads."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._counts = dict.fromkeys(("done", "failed", "given_back", "dead"), 0)
        self._dead_after = sys.maxsize
        self._dead_letters: Mapping[QueueName, QueueName] = {}
        self._lock = threading.Lock()
        self._end_with_us = partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, _KILL)

    def counts(self) -> dict[str, int]:
        """Return how many messages were `done`, `failed`, `given_back` and moved to the `dead`
        letters."""
        with self._lock:
            return dict(self._counts)

    def bury_after(self, receives: int, dead_letters: Mapping[QueueName, QueueName]) -> None:
        """Move a message that fails to the `dead_letters` of its queue once it was received this
        often."""
        self._dead_after, self._dead_letters = receives, dead_letters

    def handle(self, message: Message) -> None:
        """Run the command, and give the message back unless it exits with 0."""
        try:
            status = self._run(message)
        except OSError as error:
            self._give_back(message, "failed", _why_not_started(self._command[0], error))
            return
        if status == 0:
            self._count("done")
        elif status == _TRY_AGAIN:
            self._give_back(message, "given_back", f"exited with {status}")
        elif status < 0:
            killed = "was ended because its lease was lost" if message.lost else "was killed"
            self._give_back(message, "given_back", f"{killed} ({_name_of_signal(-status)})")
        else:
            self._give_back(message, "failed", f"exited with {status}")

    def _run(self, message: Message) -> int:
        """Run the command. Returns its status, or below 0 the signal that killed it. A command
        whose lease is lost is ended, because others have the message. Raises OSError if it cannot
        be started."""
        # The command runs in a group of its own, so that an interrupt at the terminal lets it
        # finish. It does not outlive this process, because nothing would renew its lease: prctl(2)
        # takes no lock that a thread may hold.
        with _file_with(message.body) as body:
            process = subprocess.Popen(
                self._command, stdin=body, env=os.environ | _variables(message),
                process_group=0, preexec_fn=self._end_with_us,  # noqa: PLW1509
            )  # fmt: skip
        while True:
            try:
                return process.wait(_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                if message.lost is not None:
                    os.killpg(process.pid, signal.SIGTERM)

    def _give_back(self, message: Message, outcome: str, why: str) -> None:
        from mq.client.errors import ClientError
        from mq.client.retries import handling_backoff_seconds

        is_failure = outcome == "failed"
        text = f"message {message.id}: {self._command[0]} {why}"
        if is_failure and (message.receive_count or 0) >= self._dead_after:
            dead_letters = self._dead_letters[message.delivery.queue]
            try:
                message.move(dead_letters, reason=_reason(self._command[0], why))
            except ClientError as error:
                text += f"; not moved to {dead_letters}: {error}"
            else:
                self._count("dead")
                _tell(f"{text}; it is a dead letter in {dead_letters}")
                return
        self._count(outcome)
        delay = handling_backoff_seconds(message.receive_count) if is_failure else _PAUSE_SECONDS
        if message.lost is None:
            text += f"; it returns in {delay:.1f} s"
        _tell(text)
        message.give_back(delay)

    def _count(self, outcome: str) -> None:
        with self._lock:
            self._counts[outcome] += 1


def _why_not_started(command: str, error: OSError) -> str:
    """Return what keeps the system from starting a command. One that was there a moment ago is
    there still: of a script it is the interpreter that is missing, such as one with CR at its
    end."""
    why = f"cannot be started: {error.strerror or error}"
    if error.errno == errno.ENOEXEC:
        return f"{why}: begin it with a line such as #!/bin/sh"
    if error.errno == errno.ENOENT and which(command) is not None:
        return f"{why}: the program that its first line names"
    return why


def _tell(text: str) -> None:
    click.echo(printable(f"mqctl: {text}"), err=True)


def _file_with(body: bytes) -> BinaryIO:
    """Return a file in memory, to be read from its start. Unlike a pipe it has all of the body at
    once: a command that reads it late waits for nobody."""
    file = open(os.memfd_create("body"), "w+b")  # noqa: SIM115
    file.write(body)
    file.seek(0)
    return file


def _name_of_signal(number: int) -> str:
    """Return the name of a signal, or the number of a real-time signal, which has no name."""
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _reason(command: str, why: str) -> str:
    """Return why the command failed, in characters that a dead letter can carry: a command may have
    any name."""
    name = os.path.basename(command).encode("unicode_escape").decode()
    return f"{name[: MAX_DEAD_REASON_BYTES - len(why) - 1]} {why}".strip()[:MAX_DEAD_REASON_BYTES]


def _variables(message: Message) -> dict[str, str]:
    """Return the environment of the command."""
    count = message.receive_count
    return {
        "MQ_QUEUE": message.queue,
        "MQ_MESSAGE_ID": message.id,
        "MQ_RECEIVE_COUNT": "" if count is None else str(count),
        "MQ_PUBLISHED_AT": message.published_at.isoformat(),
        "MQ_CONTENT_TYPE": message.content_type,
        "MQ_PROPERTIES": json.dumps(dict(message.properties)),
    }
