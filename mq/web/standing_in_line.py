"""A receive that waits in line for the client of a connection, as long as that is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mq.commit.operation import Done
from mq.errors import MQError
from mq.names import QueueName
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import Receive, receive_some
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.web.connections.quick_connection import QuickConnection


class Wait(NamedTuple):
    """What is waited for, and for how long: up to `limit` messages, as `by` chooses, of the first
    of these queues that has any."""

    queues: Sequence[QueueName]
    limit: int
    visibility_ns: int | None
    seconds: float
    by: Receive = receive_some


def stand_in_line(connection: QuickConnection, store: Store, wait: Wait, done: Done) -> None:
    """Receive, and wait for a message if there is none. `done` gets what `Store.wait_for` tells, or
    no messages if the client has left or leaves meanwhile. One that has closed its own direction
    waits no longer."""
    poll, share = LongPoll(wait.seconds), store.answer_memory.share()

    def end(result: list[Received] | None, error: BaseException | None) -> None:
        connection.when_lost = None
        share.end()
        done(result, error)

    def leave() -> None:
        transport = connection.own_transport
        if transport is None or transport.is_closing():
            receive.cancel()
            end([], None)
        else:
            poll.end()

    ask = Ask(wait.visibility_ns, wait.limit, share=share)
    try:
        receive = store.wait_for(wait.queues, ask, poll, end, wait.by)
    except MQError as error:
        end(None, error)
        return
    connection.when_lost = leave
    transport = connection.own_transport
    if transport is None or transport.is_closing() or connection.has_closed(transport):
        leave()  # It has gone before this.
