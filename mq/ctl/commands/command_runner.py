"""What `mqctl exec` does with each message: it runs a command."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from shutil import which
from typing import TYPE_CHECKING, BinaryIO

import click

from mq.command.stdout import printable
from mq.names import MAX_DEAD_REASON_BYTES, QueueName

if TYPE_CHECKING:
    from mq.client.blocking.message import Message

_TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h: the command cannot do it now."""

_PAUSE_SECONDS = 1.0
"""How long a message is hidden that is given back without a failure."""

_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""This machine has no process, memory or descriptor left: the message is not at fault."""

_LOOK_SECONDS = 1.0
"""How often a running command and its lease are looked at."""

_PR_SET_PDEATHSIG = 1
_KILL = int(signal.SIGKILL)


class CommandRunner:
    """Runs a command for each message that a worker hands to it, in any of its threads."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._counts = dict.fromkeys(("done", "failed", "given_back", "dead"), 0)
        self._dead_after = sys.maxsize
        self._dead_letters: Mapping[QueueName, QueueName] = {}
        self._target: QueueName | None = None
        self._content_type: str | None = None
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

    def hand_over_to(self, target: QueueName, content_type: str | None) -> None:
        """Publish what the command prints, unless that is nothing, in the step that removes its
        message."""
        self._target, self._content_type = target, content_type

    def handle(self, message: Message) -> None:
        """Run the command, and give the message back unless it exits with 0."""
        try:
            with _file_with(b"") as printed:
                status = self._run(message, None if self._target is None else printed)
                printed.seek(0)  # The command has moved the position, which both share.
                output = printed.read()
        except OSError as error:
            is_short = error.errno in _SHORTAGES
            if is_short:
                time.sleep(_PAUSE_SECONDS)  # The next message would meet it too.
            outcome = "given_back" if is_short else "failed"
            self._give_back(message, outcome, _why_not_started(self._command[0], error))
            return
        if status == 0:
            self._end(message, output)
        elif status == _TRY_AGAIN:
            self._give_back(message, "given_back", f"exited with {status}")
        elif status < 0:
            killed = "was ended because its lease was lost" if message.lost else "was killed"
            self._give_back(message, "given_back", f"{killed} ({_name_of_signal(-status)})")
        else:
            self._give_back(message, "failed", f"exited with {status}")

    def _end(self, message: Message, output: bytes) -> None:
        """End the message of a command that exited with 0: the worker removes it, unless something
        was printed that is to be published."""
        from mq.client.errors import ClientError
        from mq.client.messages import NewMessage

        if self._target is not None and output:
            try:
                message.hand_over(self._target, NewMessage(output, self._content_type))
            except ClientError as error:
                why = f"printed what could not be published to {self._target}: {error}"
                self._give_back(message, "failed", why)
                return
        self._count("done")

    def _run(self, message: Message, printed: BinaryIO | None) -> int:
        """Run the command, which prints into a file if there is one. Returns its status, or below 0
        the signal that killed it. A command whose lease is lost is ended, because others have the
        message. Raises OSError if it cannot be started."""
        # The command runs in a group of its own, so that an interrupt at the terminal lets it
        # finish. It does not outlive this process, because nothing would renew its lease: prctl(2)
        # takes no lock that a thread may hold.
        with _file_with(message.body) as body:
            process = subprocess.Popen(
                self._command, stdin=body, stdout=printed, env=os.environ | _variables(message),
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
                message.move(dead_letters, reason=reason_for(self._command[0], why))
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
    if error.errno == errno.EAGAIN:
        return f"{why}: raise the limit of processes (ulimit -u, TasksMax=, pids_limit)"
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


def reason_for(command: str, why: str) -> str:
    """Return why the command failed, in characters that a dead letter can carry: a command may have
    any name."""
    name = os.path.basename(command).encode("unicode_escape").decode()
    room = max(MAX_DEAD_REASON_BYTES - len(why) - 1, 0)
    return f"{name[:room]} {why}"[:MAX_DEAD_REASON_BYTES].strip()


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
