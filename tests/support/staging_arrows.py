"""For each move in a staging, of a job by url, the smallest operation that needs it. No server is
asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from mq.client import Client, Message
from mq.client.messages import Delivery
from mq.disk.files import Files
from mq.lifecycle import Actor, Folder
from pyspark_mq.by_url.committed import Committed
from pyspark_mq.by_url.forward import Forwarder
from pyspark_mq.by_url.intake import Intake
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.by_url.staging import open_staging, reap_staged
from pyspark_mq.options.addresses import Addresses
from tests.support.arrows import ONE, ORDERS, Arrow, Case, leased, sealed

NOWHERE = Addresses(("http://127.0.0.1:1",), retry_seconds=0.1)


def fetch(root: Path) -> None:
    lease_end = datetime.fromtimestamp(0, UTC)
    delivery = Delivery(ORDERS, ONE, b"body", "text/plain", f"{1:016x}", 1, lease_end, lease_end,
                        60.0, 60.0, 0.0)  # fmt: skip
    with Client(NOWHERE.urls[0]) as mq, closing(Intake(root, NOWHERE, [ORDERS])) as intake:
        intake.stage(ORDERS, [Message(mq._session, delivery)])


def decide(*lost: str) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        with closing(Intake(root, NOWHERE, [ORDERS])) as intake:
            intake.decide(ORDERS, {ONE: f"{1:016x}"}, set(lost))

    return run


@contextmanager
def forwarder_on(root: Path) -> Iterator[Forwarder]:
    with ServerChoice(NOWHERE) as servers, closing(open_staging(root, Files())) as spool:
        yield Forwarder(spool, servers)


def put_away(root: Path) -> None:
    with forwarder_on(root) as forwarder:
        forwarder.put_away(ORDERS, [Committed(Folder.QUEUES, "orders/1", ONE)])


def set_aside(place: Committed) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        with forwarder_on(root) as forwarder:
            forwarder.set_aside(ORDERS, place)

    return run


def reap_staging(root: Path) -> None:
    with closing(open_staging(root, Files())) as spool:
        reap_staged(spool)


QUEUES, DELAY, REMOVE, CORRUPT = Folder.QUEUES, Folder.DELAY, Folder.REMOVE, Folder.CORRUPT

STAGING_CASES: dict[Arrow, Case] = {
    (Actor.STAGING, None, DELAY): (Path.exists, fetch),
    (Actor.STAGING, DELAY, QUEUES): (leased, decide()),
    (Actor.STAGING, DELAY, REMOVE): (leased, decide(ONE)),
    (Actor.STAGING, QUEUES, REMOVE): (sealed("queues/orders/1"), put_away),
    (Actor.STAGING, REMOVE, None): (sealed("remove/orders:1"), reap_staging),
    (Actor.STAGING, QUEUES, CORRUPT): (
        sealed("queues/orders/1"),
        set_aside(Committed(Folder.QUEUES, "orders/1", ONE)),
    ),
    (Actor.STAGING, DELAY, CORRUPT): (
        leased,
        set_aside(Committed(Folder.DELAY, "orders:1", ONE)),
    ),
}
