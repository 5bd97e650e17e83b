"""The gateway for SQS beside the endpoints: what its protocol costs.

    python benchmarks/sqs.py [FOLDER ...]

Starts `mq` and `mq-sqs` on one root, and another gateway that verifies signatures. They take turns
within each round, by raw HTTP: an SDK needs one to two milliseconds of processor for a call itself.
FIFO queues, with 1,000 groups, are measured beside standard ones.
Prints messages a second, the server's processor time for each, and the ratios within the rounds.
FOLDER as for `bench.py`.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import uvloop
from batches import publish_batch, receive_batch, remove_batch
from disks import folders
from phases import close
from report import number, table
from servers import Target, listening, more_descriptors

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.generator import Script, connect, play
from mq.ctl.bench.phases import PhaseRate, each, rate_of

QUEUE = "bench"
URL = f"http://mq/000000000000/{QUEUE}"
FIFO_URL = f"{URL}.fifo"
GROUPS = 1000
TOKEN = "kT3vVt9xkq3mP2sYw8LrBg"
TEN = 10
_HANDLE = re.compile(rb'"ReceiptHandle": ?"([^"]+)"')
_ID = re.compile(rb'"id": ?"([^"]+)"')

ENDPOINTS = Endpoints(queue=QUEUE)
FIFO_ENDPOINTS = Endpoints(queue=f"{QUEUE}.fifo")


class Case(NamedTuple):
    """A kind of request to one of the servers; `size` messages each. Of what is received, `found`
    finds what `removal` needs."""

    name: str
    server: str
    request: Callable[[], bytes]
    size: int
    against: str
    found: re.Pattern[bytes] | None = None
    removal: Callable[[Sequence[bytes]], bytes] | None = None


def ask(operation: str, values: dict[str, object], more: str = "") -> bytes:
    body = json.dumps({"QueueUrl": URL, **values}).encode()
    head = (
        f"POST / HTTP/1.1\r\nHost: mq\r\nX-Amz-Target: AmazonSQS.{operation}\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def signed(operation: str, values: dict[str, object]) -> bytes:
    """Return the request with a signature of now, by the token of the file."""
    body = json.dumps({"QueueUrl": URL, **values}).encode()
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names, scope = "host;x-amz-date;x-amz-target", f"{now[:8]}/us-east-1/sqs/aws4_request"
    text = (
        f"POST\n/\n\nhost:mq\nx-amz-date:{now}\nx-amz-target:AmazonSQS.{operation}\n\n{names}\n"
        + hashlib.sha256(body).hexdigest()
    )
    to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(text.encode()).hexdigest()}"
    key = f"AWS4{TOKEN}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    return ask(
        operation, values,
        f"X-Amz-Date: {now}\r\nAuthorization: AWS4-HMAC-SHA256 Credential=till/{scope}, "
        f"SignedHeaders={names}, Signature={signature}\r\n",
    )  # fmt: skip


def cases(body: str, group_of: Callable[[int], int] = lambda at: at % GROUPS) -> list[Case]:
    """Return all kinds of requests. `group_of` is the group of the nth message that is sent to the
    FIFO queue."""
    message: dict[str, object] = {"MessageBody": body}
    kib = {"note": {"DataType": "String", "StringValue": "x" * 1000}}
    ten = {f"note-{at}": {"DataType": "String", "StringValue": "x" * 90} for at in range(TEN)}
    entries = [{"Id": str(at), "MessageBody": body} for at in range(TEN)]
    ask_ten: dict[str, object] = {"MaxNumberOfMessages": TEN}
    fifo: dict[str, object] = {"QueueUrl": FIFO_URL}
    numbers = itertools.count()

    def delete(handles: Sequence[bytes], more: dict[str, object] | None = None) -> bytes:
        some = [{"Id": str(at), "ReceiptHandle": each.decode()} for at, each in enumerate(handles)]
        return ask("DeleteMessageBatch", {"Entries": some, **(more or {})})

    def in_a_group() -> dict[str, object]:
        """Return the next message, in its group."""
        at = next(numbers)
        return message | {
            "MessageGroupId": f"group-{group_of(at)}",
            "MessageDeduplicationId": str(at),
        }

    def ten_in_groups() -> bytes:
        some = [{"Id": str(at), **in_a_group()} for at in range(TEN)]
        return ask("SendMessageBatch", fifo | {"Entries": some})

    return [
        Case("POST", "mq", lambda: ENDPOINTS.publish(body.encode()), 1, ""),
        Case("SendMessage", "mq-sqs", lambda: ask("SendMessage", message), 1, "POST"),
        Case("with 1 KiB of attributes", "mq-sqs",
             lambda: ask("SendMessage", message | {"MessageAttributes": kib}), 1, "SendMessage"),
        Case("the same in ten attributes", "mq-sqs",
             lambda: ask("SendMessage", message | {"MessageAttributes": ten}), 1, "SendMessage"),
        Case("signed", "signed", lambda: signed("SendMessage", message), 1, "SendMessage"),
        Case("POST ?batch of ten", "mq", lambda: publish_batch(ENDPOINTS, [body] * TEN), TEN, ""),
        Case("SendMessageBatch", "mq-sqs", lambda: ask("SendMessageBatch", {"Entries": entries}),
             TEN, "POST ?batch of ten"),
        Case("GET ?max=10", "mq", lambda: receive_batch(ENDPOINTS, TEN), TEN, "", _ID,
             partial(remove_batch, ENDPOINTS)),
        Case("ReceiveMessage", "mq-sqs", lambda: ask("ReceiveMessage", ask_ten), TEN,
             "GET ?max=10", _HANDLE, delete),
        Case("SendMessage, FIFO", "mq-sqs", lambda: ask("SendMessage", fifo | in_a_group()), 1,
             "SendMessage"),
        Case("SendMessageBatch, FIFO", "mq-sqs", ten_in_groups, TEN, "SendMessageBatch"),
        Case("ReceiveMessage, FIFO", "mq-sqs", lambda: ask("ReceiveMessage", fifo | ask_ten), TEN,
             "ReceiveMessage", _HANDLE, lambda handles: delete(handles, fifo)),
    ]  # fmt: skip


@contextmanager
def running(folder: Path) -> Iterator[dict[str, Target]]:
    """Run the three servers on a fresh root below `folder`, which is removed at the end."""
    fresh = Path(tempfile.mkdtemp(dir=folder))
    tokens = fresh / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"till write * {TOKEN}\n")
    commands = {"mq": ["mq"], "mq-sqs": ["mq_sqs"], "signed": ["mq_sqs", f"--token-file={tokens}"]}
    shared = [f"--root={fresh / 'root'}", "--port=0", "--admin=", "--visibility=3600",
              "--allowed-host=mq"]  # fmt: skip
    targets: dict[str, Target] = {}
    try:
        with ExitStack() as stack:
            for name, words in commands.items():
                command = [sys.executable, "-m", *words, *shared]
                pid, port = stack.enter_context(listening(command))
                targets[name] = Target(name, [("127.0.0.1", port)], ENDPOINTS, [pid])
            yield targets
    finally:
        shutil.rmtree(fresh)


def require_all(answer: bytes) -> None:
    """Raise RuntimeError unless all that was asked for was done, each entry of a batch too."""
    ENDPOINTS.check(answer)
    if b'"Failed"' in answer:
        raise RuntimeError(answer.decode(errors="replace"))


async def measure(
    case: Case, target: Target, messages: int, connections: int
) -> dict[str, PhaseRate]:
    """Measure one round of a case, and the removal of what it received."""
    clients = await connect(ENDPOINTS, target.addresses, connections)
    found: list[bytes] = []

    def take(answer: bytes) -> None:
        require_all(answer)
        if case.found is not None:
            found.extend(case.found.findall(answer))

    async def run(requests: list[bytes]) -> PhaseRate:
        shared = iter(requests)
        scripts: list[Script] = [each(shared, take) for _ in clients]
        sample = await play(clients, scripts, target.cpu_seconds)
        return rate_of(sample, len(requests) * case.size)

    try:
        count = max(connections, messages // case.size)
        # First the server reads settings and lists the queue.
        await run([case.request() for _ in range(count // 4)])
        rates = {case.name: await run([case.request() for _ in range(count)])}
        asked = (count + count // 4) * case.size
        if case.found is not None and len(found) != asked:
            raise RuntimeError(f"{case.name}: {len(found)} messages received, not {asked}")
        if case.removal is not None:
            parts = [found[at : at + TEN] for at in range(0, len(found), TEN)]
            rates[f"{case.name}, removed"] = await run([case.removal(part) for part in parts])
    finally:
        close(clients)
    return rates


async def make_queues(target: Target) -> None:
    [client] = await connect(ENDPOINTS, target.addresses, 1)
    try:
        for endpoints in (ENDPOINTS, FIFO_ENDPOINTS):
            await client.play(endpoints.make_queue())
    finally:
        close([client])


Found = dict[str, list[PhaseRate]]


def run_round(folder: Path, messages: int, connections: int, body: str, found: Found) -> None:
    with running(folder) as targets:
        uvloop.run(make_queues(targets["mq"]))
        for case in cases(body):
            rates = uvloop.run(measure(case, targets[case.server], messages, connections))
            for name, rate in rates.items():
                found.setdefault(name, []).append(rate)


def comparison(found: Found, all_cases: Sequence[Case]) -> str:
    lines = []
    pairs = [(case.name, case.against) for case in all_cases]
    pairs += [("ReceiveMessage, removed", "GET ?max=10, removed"),
              ("ReceiveMessage, FIFO, removed", "ReceiveMessage, removed")]  # fmt: skip
    for name, against in pairs:
        rounds = found[name]
        line = [name, number(statistics.median(each.per_second for each in rounds)),
                number(statistics.median(each.cpu_us or 0.0 for each in rounds))]  # fmt: skip
        if against:
            both = list(zip(found[against], rounds, strict=True))
            rate = statistics.median(ours.per_second / theirs.per_second for theirs, ours in both)
            cost = statistics.median(
                (ours.cpu_us or 0.0) / (theirs.cpu_us or 1.0) for theirs, ours in both
            )
            line += [against, f"{rate:.2f}", f"{cost:.2f}"]
        lines.append(line if against else [*line, "", "", ""])
    return table(["", "messages/s", "CPU, µs", "against", "rate", "CPU"], lines)


@click.command()
@click.argument("roots", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--rounds", default=5, show_default=True)
@click.option("--messages", default=3000, show_default=True, help="Of a phase.")
@click.option("--size", default=100, show_default=True, help="Bytes of a body.")
@click.option("--connections", default=64, show_default=True)
def main(
    *, roots: tuple[Path, ...], rounds: int, messages: int, size: int, connections: int
) -> None:
    """The gateway for SQS beside the endpoints, paired in each round."""
    more_descriptors()
    with folders(roots) as places:
        for place, folder in places.items():
            found: Found = {}
            for _ in range(rounds):
                run_round(folder, messages, connections, "x" * size, found)
            print(f"{place}:\n{comparison(found, cases(''))}\n")


if __name__ == "__main__":
    main()
