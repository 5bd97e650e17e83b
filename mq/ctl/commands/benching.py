"""`mqctl bench`: how fast a server answers."""

from __future__ import annotations

import json
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Never

import click

from mq.command.stdout import printable
from mq.config import Address
from mq.ctl.common_flags import CommonFlags, credentials, everywhere, flags_of, opened
from mq.ctl.screen.progress import ProgressBar
from mq.ctl.ways.access import Access
from mq.errors import CommandFailed, ExitCode, MQError
from mq.names import QueueName

if TYPE_CHECKING:
    from mq.ctl.bench.phases import Rates

_FIGURES = ("per_second", "p50_ms", "p99_ms")

_BUSY = 0.8
"""Above this part of one processor the figures say how fast mqctl is, and not the server."""

_VISIBILITY = "3600"
"""Seconds. No phase is longer than a few minutes."""


@click.command()
@click.option("-c", "--connections", type=click.IntRange(1, 1000), default=64, show_default=True,
              help="How many connections send at a time.")  # fmt: skip
@click.option("-n", "--messages", type=click.IntRange(1, 1_000_000), default=3000,
              show_default=True, help="How many messages a phase has.")  # fmt: skip
@click.option("-s", "--size", type=click.IntRange(1, 65536), default=256, show_default=True,
              help="Bytes of a body.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True,
              help="How often to measure everything; the medians are printed.")  # fmt: skip
@everywhere
@click.pass_context
def bench(
    context: click.Context, *, connections: int, messages: int, size: int, rounds: int
) -> None:
    """Measure how fast a server publishes, receives and removes.

    The messages are in a queue of their own, which is deleted at the end. In the phase `cycle` each
    connection publishes, receives and removes in turn. Other clients of the server are slower
    meanwhile, and so are the figures.
    """
    flags = flags_of(context)
    if flags.root is not None:
        raise click.UsageError("bench measures a server: use --url")
    measure = _measuring(flags, connections, messages, size)
    with opened(flags) as access, _clearing_up(), _own_queue(access) as queue:
        found = []
        if sys.stderr.isatty():
            click.echo(
                f"measuring {flags.url}: {rounds:,} x {messages:,} messages of {size:,} bytes in "
                f"each phase, over {connections:,} connections",
                err=True,
            )
        with ProgressBar("measuring", total=rounds) as bar:
            for done in range(rounds):
                bar.tell(done)
                found.append(measure(queue))
    _print(flags, found)


@contextmanager
def _clearing_up() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that what it made is deleted. `timeout` sends a
    second one at the same moment, which does nothing."""

    def end(number: int, frame: object) -> Never:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _own_queue(access: Access) -> Iterator[QueueName]:
    """Make a queue, and delete it at the end with what is left in it. Received messages do not come
    back during the measurement, whatever the server's settings say."""
    queue = QueueName(f"bench-{secrets.token_hex(4)}")
    is_made = False
    try:
        is_made = access.create_queue(queue, {"visibility": _VISIBILITY})
        yield queue
    finally:
        try:
            access.delete_queue(queue)
        except MQError as error:
            if is_made:
                text = f"mqctl: queue {queue} may still be there: {error}"
                click.echo(printable(text), err=True)


def _measuring(
    flags: CommonFlags, connections: int, messages: int, size: int
) -> Callable[[QueueName], Rates]:
    """Return what measures one round on a queue, with bodies of `size` bytes, and raises
    CommandFailed. All that it needs is imported here, before there is a queue: an interrupted
    import can make Python die of the signal, without the exit code of the command."""
    import asyncio

    from mq.ctl.bench.endpoints import Endpoints
    from mq.ctl.bench.generator import connect
    from mq.ctl.bench.phases import measure_requests
    from mq.ctl.ways.connect import server_at

    address, token = server_at(flags.url, credentials(flags))
    place = address.socket_path or (address.host, address.port)

    async def measure_round(dialect: Endpoints) -> Rates:
        clients = await connect(dialect, [place], connections, address.tls)
        try:
            return await measure_requests(clients, dialect, messages, b"x" * size)
        finally:
            for client in clients:
                client.close()

    def measure(queue: QueueName) -> Rates:
        host = str(Address(address.host, address.port))
        measured = measure_round(Endpoints(host, queue, address.prefix, token.show()))
        try:
            return asyncio.run(measured)
        except TimeoutError:
            raise CommandFailed(
                ExitCode.TRY_AGAIN, "the server took too long; give fewer --messages"
            ) from None
        except (OSError, RuntimeError) as error:
            line = str(error).partition("\r\n")[0] or type(error).__name__
            raise CommandFailed(
                ExitCode.UNAVAILABLE, f"{flags.url} did not do what was asked for: {line}"
            ) from None
        finally:
            # Interrupted before the loop ran it, Python would warn of it.
            measured.close()

    return measure


def _print(flags: CommonFlags, found: list[Rates]) -> None:
    from mq.ctl.bench.phases import PHASES, median_of
    from mq.ctl.screen import display

    rates = [(phase, median_of([rates[phase] for rates in found])) for phase in PHASES]
    if flags.as_json:
        for phase, rate in rates:
            figures = {name: round(getattr(rate, name), 3) for name in _FIGURES}
            click.echo(json.dumps({"phase": phase} | figures))
    else:
        rows = [("PHASE", "PER SECOND", "P50 MS", "P99 MS")]
        rows += [
            (phase, f"{rate.per_second:,.0f}", f"{rate.p50_ms:.2f}", f"{rate.p99_ms:.2f}")
            for phase, rate in rates
        ]
        click.echo("\n".join(display.aligned(rows)))
    busy = max(rate.busy for _, rate in rates)
    if busy > _BUSY:
        click.echo(
            f"mqctl: it took {busy:.0%} of a processor to send this: the server may be faster",
            err=True,
        )
