"""Clients in forked processes: nothing of the parent's is used there, and nothing blocks."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from mq.client import AsyncClient, Client, ClientClosed, Message, Queue
from tests.support.faces import counts, new_queue, receive_now, wait_for_renewals
from tests.support.processes import Server

CHILDREN = 10


def fork(work: Callable[[], object]) -> int:
    """A child that does that, with a time limit. Returns its process."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def assert_done(pid: int) -> None:
    assert os.waitpid(pid, 0)[1] == 0


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """All begin at the same time. Raises what one raises."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def begin(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_children_that_are_forked_under_load_publish_from_many_threads(
    start_server: Callable[..., Server],
) -> None:
    """The parent's threads go on meanwhile, so its locks are held at many of the forks."""
    with Client(start_server().url) as mq:
        orders = new_queue(mq)
        published: list[str] = []
        stop = threading.Event()

        def load(number: int) -> None:
            for count in range(10_000):
                if stop.is_set():
                    break
                published.append(orders.publish(f"parent-{number}-{count}"))

        threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for child in range(CHILDREN):

                def publish(thread: int, child: int = child) -> None:
                    for part in range(3):
                        orders.publish(f"child-{child}-{thread}-{part}")

                assert_done(fork(lambda: in_threads(6, publish)))
        finally:
            stop.set()
            for thread in threads:
                thread.join()

        found: list[Message] = []
        while more := orders.receive_many(1000, visibility=600):
            found += more
    assert len({message.id for message in found}) == len(found)
    texts = [message.text() for message in found]
    of_children = [text for text in texts if text.startswith("child")]
    assert len(set(of_children)) == len(of_children) == CHILDREN * 6 * 3
    assert len(texts) - len(of_children) == len(published)


def test_a_childs_threads_take_none_of_the_parents_connections(server: Server) -> None:
    """The parent's are many, and idle; each has to work afterwards."""
    with Client(server.url) as mq:
        orders = new_queue(mq)
        in_threads(8, lambda number: orders.publish("parent"))
        idle = mq._session._connections._idle
        assert len(idle) > 1
        taken = {each.connection.sock.getsockname() for each in idle}

        def check(number: int) -> None:
            orders.publish("child")
            now = mq._session._connections._idle
            assert taken.isdisjoint(each.connection.sock.getsockname() for each in now)

        for _ in range(3):
            assert_done(fork(lambda: in_threads(8, check)))
        in_threads(8, lambda number: orders.publish("parent"))
        assert counts(orders)[0] == 16 + 3 * 8


@pytest.mark.parametrize("lock", ["connections", "ids", "token"])
def test_a_lock_that_is_held_at_the_fork_is_free_in_the_child(server: Server, lock: str) -> None:
    with Client(server.url, token="secret") as mq:
        orders = new_queue(mq)
        session = mq._session
        held: Any = {
            "connections": session._connections._lock,
            "ids": session.context.ids._lock,
            "token": session.context.token._lock,
        }[lock]
        ready, done = threading.Event(), threading.Event()

        def hold() -> None:
            with held:
                ready.set()
                done.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        ready.wait(60)

        def use() -> None:
            session.context.token.refresh("another")
            orders.publish("child")

        try:
            assert_done(fork(use))
        finally:
            done.set()
            holder.join()
        assert counts(orders)[0] == 1


def test_a_child_may_acknowledge_what_its_parent_renews(hasty_server: Server) -> None:
    """The thread that renews is not in the child; its lock may be held."""
    with Client(hasty_server.url) as mq:
        orders = new_queue(mq)
        for _ in range(CHILDREN):
            orders.publish("one")
            with receive_now(orders, 30) as message:
                wait_for_renewals(message, 1)
                stop: Any = message._renewal._stop
                with stop._cond:  # as the thread that renews for a moment
                    pid = fork(message.ack)
                assert_done(pid)
                message.is_settled = True
        assert counts(orders) == (0, 0, 0)


@pytest.mark.parametrize("error", [None, SystemExit()])
def test_a_child_that_leaves_the_block_of_its_parent_settles_nothing(
    server: Server, error: BaseException | None
) -> None:
    """sys.exit() in a child of a handler is an end like this."""
    with Client(server.url) as mq:
        orders = new_queue(mq)
        orders.publish("one")
        with receive_now(orders, 30) as message:
            kind = None if error is None else type(error)
            assert_done(fork(lambda: message.__exit__(kind, error, None)))
            assert counts(orders) == (0, 1, 0)
            assert not message.is_settled
        assert counts(orders) == (0, 0, 0)


def test_a_child_may_handle_what_its_parent_received(server: Server) -> None:
    with Client(server.url) as mq:
        orders = new_queue(mq)
        orders.publish("one")
        message = receive_now(orders, 30)

        def handle() -> None:
            with message:
                pass

        assert_done(fork(handle))
        assert counts(orders) == (0, 0, 0)


async def test_an_asynchronous_client_begins_anew_in_a_child(server: Server) -> None:
    """What the parent has open goes on working, too."""
    mq = AsyncClient(server.url)
    async with mq:
        orders = mq.queue(f"forked-{os.getpid()}")
        await orders.create()
        await asyncio.gather(*(orders.publish("parent") for _ in range(4)))

        async def publish() -> None:
            await asyncio.gather(*(orders.publish("child") for _ in range(4)))
            await mq.close()

        for _ in range(3):
            pid = fork(lambda: asyncio.run(publish()))
            assert (await asyncio.to_thread(os.waitpid, pid, 0))[1] == 0
        await asyncio.gather(*(orders.publish("parent") for _ in range(4)))

        found = await orders.receive_many(100)
        assert len({message.id for message in found}) == len(found) == 20
        await orders.delete()


def test_a_client_that_is_closed_is_closed_in_a_child_too(server: Server) -> None:
    mq = Client(server.url)
    orders = new_queue(mq)
    mq.close()

    def publish() -> None:
        with pytest.raises(ClientClosed):
            orders.publish("one")

    assert_done(fork(publish))


def test_what_has_connections_is_not_pickled(mq: Client, orders: Queue) -> None:
    """Where `multiprocessing` does not fork, it pickles what it is given."""
    orders.publish("one")
    for one in (mq, orders, orders.receive()):
        with pytest.raises(TypeError, match="make a client in each process"):
            pickle.dumps(getattr(one, "_one", one))
