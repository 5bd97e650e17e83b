"""A stream over TLS with a token from queue to queue, also while its servers are killed in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mq.client import Client
from tests.support.certificates import make_certificate
from tests.support.processes import Server, wait_until
from tests.support.token_files import make_token_file

TOKEN = "worker-9cRt4Wq7nzB2mLx5VhJdKs"
MESSAGES = 900
BATCH = 150


class SecureSite:
    """Two servers of one root, with TLS and a token, and the queues `orders` and `copies`."""

    def __init__(self, folder: Path, root: Path, start_server: Callable[..., Server]) -> None:
        self.pair = make_certificate(folder, "server")
        self.token = folder / "token"
        self.token.write_text(TOKEN)
        tokens = make_token_file(folder, f"worker read,write,admin {TOKEN}")
        self._folder = folder
        self._root = root
        self._start_server = start_server
        self._flags = (*self.pair.flags(), f"--token-file={tokens}", "--peers=1")
        self._servers = [self._start(), self._start()]
        self.mq = self.client(0)
        self.orders, self.copies = self.mq.queue("orders"), self.mq.queue("copies")
        self.orders.create()
        self.copies.create()

    def _start(self, port: int = 0) -> Server:
        return self._start_server(*self._flags, f"--port={port}", root=self._root)

    def client(self, number: int) -> Client:
        url = f"https://127.0.0.1:{self._servers[number].port}"
        return Client(url, token=TOKEN, ca_file=self.pair.cert)

    def kill(self, number: int) -> None:
        self._servers[number].kill()

    def start_again(self, number: int) -> None:
        self._servers[number] = self._start(self._servers[number].port)

    def options(self, queue: str) -> dict[str, str]:
        """The options of a source or sink. Nobody listens at the first address."""
        ports = [1, *(server.port for server in self._servers)]
        return {
            "url": ",".join(f"https://127.0.0.1:{port}" for port in ports),
            "caFile": str(self.pair.cert),
            "tokenFile": str(self.token),
            "staging": str(self._root.parent / "staging"),
            "queue": queue,
        }

    def start_stream(self, spark: Any) -> Any:
        """A query that copies what is ready from one queue to the other."""
        source = spark.readStream.format("mq").options(**self.options("orders"))
        source = source.option("maxMessagesPerTrigger", BATCH).option("visibilitySeconds", "2")
        sink = source.load().select("value").writeStream.format("mq")
        sink = sink.options(**self.options("copies"))
        sink = sink.option("checkpointLocation", str(self._folder / "checkpoint"))
        return sink.trigger(availableNow=True).start()


@pytest.fixture
def site(root: Path, tmp_path: Path, start_server: Callable[..., Server]) -> Iterator[SecureSite]:
    made = SecureSite(tmp_path, root, start_server)
    yield made
    made.mq.close()


def test_a_stream_over_tls_goes_past_an_address_where_nobody_listens(
    spark: Any, site: SecureSite
) -> None:
    site.orders.publish_many([b"one", b"two"])

    site.start_stream(spark).awaitTermination()

    assert sorted(each.body for each in site.copies.receive_many(1000)) == [b"one", b"two"]


@pytest.mark.crash_long
@pytest.mark.timeout(900)
def test_a_stream_over_tls_goes_on_at_the_server_that_is_left_and_copies_each_message_once(
    spark: Any, site: SecureSite
) -> None:
    bodies = [b"%05d" % number for number in range(MESSAGES)]
    site.orders.publish_many(bodies)
    query = site.start_stream(spark)

    def wait_for_a_batch() -> None:
        before = len(query.recentProgress)
        wait_until(lambda: len(query.recentProgress) > before or not query.isActive, 200)
        assert query.isActive, query.exception()

    wait_for_a_batch()
    site.kill(0)
    wait_for_a_batch()
    site.start_again(0)
    site.kill(1)
    query.awaitTermination()
    # A message that was in a lost answer comes back after its lease.
    while sum(site.orders.counts()[1:4]):
        site.start_stream(spark).awaitTermination()

    assert sorted(each.body for each in site.copies.receive_many(1000)) == bodies


def test_a_stream_with_a_token_that_no_server_knows_names_the_option(
    spark: Any, site: SecureSite
) -> None:
    site.token.write_text(TOKEN[::-1])

    with pytest.raises(Exception, match="option tokenFile: name a file that holds a token"):
        site.start_stream(spark).awaitTermination()
