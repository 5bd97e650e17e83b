"""`mqctl --root` beside the servers, one command after the other; some are killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress

from mq.errors import ExitCode
from tests.soak.bodies import DRAFTS, LETTERS, text_of, token_in
from tests.soak.history import Event, Given
from tests.soak.worker import SoakWorker, one

PRELOAD = "SOAK_PRELOAD"
"""In the environment: what the commands load in front of libc."""

_PAUSE_SECONDS = (0.2, 2.0)
_KILLED_OF = 4
_KILL_AFTER_SECONDS = (0.05, 1.0)
_STATUSES = {
    0: 200,
    ExitCode.EMPTY: 204,
    ExitCode.NOT_FOUND: 404,
    ExitCode.REFUSED: 409,
    ExitCode.TRY_AGAIN: 503,
    ExitCode.ROOT: 503,
}  # fmt: skip
_DEFECT = 500


class CommandWorker(SoakWorker):
    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await self.random.choice(
                [self._send, self._send_batch, self._receive, self._receive, self._purge]
            )()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.random.uniform(*_PAUSE_SECONDS)):
                    await stopping.wait()

    def token(self) -> str:
        """One of a message without properties."""
        return "f" + super().token()[1:]

    async def _mqctl(self, event: Event, *words: str, stdin: bytes = b"") -> bytes:
        """What it wrote; `event` is told how it ended."""
        event.asked = time.monotonic_ns()
        killed_after = None
        if self.random.randrange(_KILLED_OF) == 0:
            killed_after = self.random.uniform(*_KILL_AFTER_SECONDS)
        command = [sys.executable, "-m", "mq.ctl", "--root", self.site.root, "--json", *words]
        code, out, told = await asyncio.to_thread(_run, command, stdin, killed_after)
        event.ended = time.monotonic_ns()
        event.status = None if code < 0 else _STATUSES.get(code, _DEFECT)
        if event.status == _DEFECT:
            sys.stderr.write(f"mqctl {' '.join(words)}: {code}, {told.decode()}\n")
        return out

    async def _send(self) -> None:
        token, own = self.token(), str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        event = Event("publish", 0, 0, None, LETTERS, given=one(own, token))
        await self._mqctl(event, "send", LETTERS, text_of(token), "--id", own)
        self.note(event)

    async def _send_batch(self) -> None:
        tokens = [self.token() for _ in range(self.random.randint(1, 100))]
        event = Event("publish", 0, 0, None, LETTERS, given=[Given("", token) for token in tokens])
        lines = b"".join(json.dumps({"body": text_of(token)}).encode() + b"\n" for token in tokens)
        out = await self._mqctl(event, "send", LETTERS, "--batch", "--file", "-", stdin=lines)
        if event.succeeded:
            found = zip(out.splitlines(), tokens, strict=True)
            event.given = [Given(json.loads(line)["id"], token) for line, token in found]
        self.note(event)

    async def _receive(self) -> None:
        seconds = float(self.random.randint(3, 6))
        event = Event("receive", 0, 0, None, LETTERS, seconds)
        out = await self._mqctl(event, "recv", LETTERS, "--visibility", str(seconds), "--max", "5")
        lines = [json.loads(line) for line in out.splitlines()] if event.succeeded else []
        event.given = [
            Given(line["id"], token_in(line["body"].encode()), f'"{line["lease"]}"')
            for line in lines
        ]
        self.note(event)
        if event.given:
            await self._acknowledge(event.given[0])

    async def _acknowledge(self, given: Given) -> None:
        message_id, _, lease = given
        event = Event("remove", 0, 0, None, LETTERS, given=one(message_id, "", lease))
        await self._mqctl(event, "ack", LETTERS, message_id, "--lease", lease)
        self.note(event)

    async def _purge(self) -> None:
        event = Event("purge", 0, 0, None, DRAFTS)
        await self._mqctl(event, "purge", DRAFTS, "--yes")
        self.note(event)


def _run(
    command: Sequence[str], stdin: bytes, killed_after: float | None
) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of `command`, which is killed after that many seconds.

    It is run by `subprocess`, because a process that asyncio kills just as it ends may lose its
    exit code: both the signal and the watcher wait for it.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"LD_PRELOAD": os.environ[PRELOAD]},
    )  # fmt: skip
    try:
        out, told = process.communicate(stdin, killed_after)
    except subprocess.TimeoutExpired:
        process.kill()
        out, told = process.communicate()
    return process.returncode, out, told
