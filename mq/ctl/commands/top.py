"""`mqctl top`: the queues as they change."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence

import click

from mq.command.flags import Seconds
from mq.command.pace import is_screen
from mq.command.stdout import printable
from mq.ctl.arguments import QUEUE
from mq.ctl.common_flags import admin_option, everywhere, flags_of, opened
from mq.ctl.screen.display import age, aligned, with_pauses
from mq.ctl.screen.flow import FlowMeter, QueueFlow
from mq.ctl.screen.live_screen import LiveScreen
from mq.ctl.ways.access import Access, Passed, QueueCounts
from mq.errors import CommandFailed, ExitCode, MQError, QueueNotFound
from mq.names import QueueName

_TITLE = ("name", "ready", "leased", "delayed", "dead", "oldest age", "in/s", "out/s")
_FOOT = "q ends, up and down scroll"
_SHORTEST_NAME = 12
_CUT = "..."
_STEPS = {b"\x1b[A": -1, b"k": -1, b"\x1b[B": 1, b"j": 1, b"\x1b[5~": -10, b"\x1b[6~": 10,
          b"\x1bOA": -1, b"\x1bOB": 1}  # fmt: skip


@click.command()
@click.argument("queues", metavar="[QUEUE]...", type=QUEUE, nargs=-1)
@click.option("--interval", type=Seconds(0.1, 3600), default=2.0, show_default=True,
              help="Seconds between two looks.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one table, after one interval.")
@admin_option
@everywhere
@click.pass_context
def top(
    context: click.Context,
    *,
    queues: tuple[QueueName, ...],
    interval: float,
    once: bool,
    admin: str | None,
) -> None:
    """Show the queues live, and how fast messages come and go.

    With names it shows only those. Where stdin or stdout is not a terminal, or TERM is dumb, it
    prints one table. It changes nothing.
    """
    flags = flags_of(context, admin)
    is_live = sys.stdin.isatty() and is_screen(sys.stdout) and not once and not flags.as_json
    with opened(flags) as access:
        meter = FlowMeter()
        flows = _measure(meter, access, queues)
        if is_live:
            _show(access, meter, queues, flows, interval)
            return
        time.sleep(interval)
        flows = _measure(meter, access, queues)
    if flags.as_json:
        for flow in flows:
            click.echo(json.dumps(flow._asdict()))
    else:
        click.echo("\n".join(flow_table(flows)))


def _measure(meter: FlowMeter, access: Access, queues: Sequence[QueueName]) -> list[QueueFlow]:
    found = meter.measure(time.monotonic(), *_look(access, queues))
    if not queues:
        return found
    by_name = {flow.queue: flow for flow in found}
    for queue in queues:
        if queue not in by_name:
            raise QueueNotFound(f"there is no queue {queue}")
    return [by_name[queue] for queue in queues]


def _look(
    access: Access, queues: Sequence[QueueName]
) -> tuple[list[QueueCounts], Mapping[str, Passed]]:
    """Look at all queues; without an admin listener, or a token for all of them, at those that are
    named, one by one."""
    try:
        return access.list_queues(), access.passed()
    except CommandFailed as error:
        if error.exit_code not in (ExitCode.UNAVAILABLE, ExitCode.REFUSED) or not queues:
            raise
        return [access.describe_queue(queue) for queue in queues], {}


def _show(
    access: Access, meter: FlowMeter, queues: Sequence[QueueName], flows: list[QueueFlow],
    interval: float,
) -> None:  # fmt: skip
    """Show the queues until q is typed."""
    at, trouble, next_look = 0, "", time.monotonic() + interval
    with LiveScreen() as screen:
        while True:
            title, *rows = flow_table(flows, screen.columns)
            at = max(0, min(at, len(rows) - 1))
            messages = _counted(sum(sum(flow[1:4]) for flow in flows), "message")
            head = f"{time.strftime('%H:%M:%S')}  {_counted(len(flows), 'queue')}, {messages}"
            screen.draw(f"{head}  {trouble}", [title, *rows[at:]], _FOOT)
            keys = screen.wait(max(0.0, next_look - time.monotonic()))
            if b"q" in keys.lower():
                return
            at += sum(step * keys.count(key) for key, step in _STEPS.items())
            if time.monotonic() < next_look:
                continue
            next_look = time.monotonic() + interval
            try:
                flows, trouble = _measure(meter, access, queues), ""
            except MQError as error:
                trouble = printable(str(error))


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def flow_table(flows: Sequence[QueueFlow], columns: int | None = None) -> list[str]:
    """Return the title, and a line for each queue. Names are shortened, if need be, so that the
    numbers are within this many columns."""
    rows = [
        (printable(flow.queue), *map(str, flow[1:5]), age(flow.oldest_age_seconds),
         _rate(flow.in_rate), _rate(flow.out_rate))
        for flow in flows
    ]  # fmt: skip
    are_paused = [flow.paused for flow in flows]
    if columns is not None:
        bare = [("", *row[1:]) for row in [_TITLE, *rows]]
        numbers = max(map(len, with_pauses(aligned(bare), are_paused)))
        rows = [(_shortened(row[0], columns - numbers), *row[1:]) for row in rows]
    return with_pauses(aligned([_TITLE, *rows]), are_paused)


def _shortened(name: str, columns: int) -> str:
    """Return a name without its middle if it is longer than that: names often begin alike, and end
    alike."""
    most = max(columns, _SHORTEST_NAME)
    if len(name) <= most:
        return name
    end = (most - len(_CUT)) // 2
    return name[: most - len(_CUT) - end] + _CUT + name[-end:]


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"
