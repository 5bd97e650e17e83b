"""For each move of each actor the smallest real operation that needs it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path

from mq.config import ReaperConfig
from mq.ctl.ways.access import QueueMove
from mq.ctl.ways.by_root import RootAccess
from mq.disk.files import Files
from mq.errors import ClaimError, MQError
from mq.fsck.check import Check, mend
from mq.lifecycle import Actor, Folder
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName
from mq.spool.root import visit_root
from mq.spool.spark.claiming import Claim
from mq.spool.spark.claims import Group
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq_reaper.reaper import Reaper
from tests.support.messages import seal_of, stamp, write_message
from tests.support.redelivery import move_due
from tests.support.spark_files import start_group

ORDERS, DEAD = QueueName("orders"), QueueName("orders.dead")
ONE = MessageId("1")
LONG_SECONDS = 1000.0
JOB, STAGED = "app", "spark/stage/app/1/0-1"
WRITTEN = StagedMessage(ORDERS, b"body", ONE)
WRITTEN_LATE = StagedMessage(ORDERS, b"body", ONE, delay_seconds=LONG_SECONDS)

_attempts = count()

Arrow = tuple[Actor, Folder | None, Folder | None]
Case = tuple[Callable[[Path], object], Callable[[Path], object]]
"""What lies in the root before, and the operation."""


# What lies there


def sealed(path: str) -> Callable[[Path], Path]:
    return lambda root: write_message(root / path, seal=seal_of(b"body"))


def torn(path: str) -> Callable[[Path], Path]:
    return lambda root: write_message(root / path, b"bo", seal=seal_of(b"body", lease=1))


def folder(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).mkdir()


def leased(root: Path) -> None:
    write_message(root / "delay/orders:1", seal=seal_of(b"body", lease=1), due_in_seconds=1000)


def stamped(path: str) -> Callable[[Path], None]:
    def put(root: Path) -> None:
        # Stamped before it has its name: a link sets ctime.
        unnamed = write_message(root / "unnamed", seal=seal_of(b"body"))
        stamp(unnamed, LONG_SECONDS)
        unnamed.rename(root / path)

    return put


def dead_letter(root: Path) -> None:
    (root / "queues/orders.dead").mkdir()
    sealed("queues/orders.dead/1")(root)


def batch_half_moved(root: Path) -> None:
    """Leave what a crash between link and unlink leaves, in a batch that is sealed."""
    batch = root / "new/.orders:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    batch.mkdir()
    os.link(sealed("queues/orders/1")(root), batch / "orders:1")


def committed(put: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return what leaves a transaction whose driver died before its messages were brought to their
    queues."""

    def prepare(root: Path) -> None:
        (root / "spark/stage/app/1/0-1").mkdir(parents=True)
        (root / "spark/txn/app").mkdir(parents=True)
        (root / "spark/txn/app/1").write_text("0-1\n")
        put(root)

    return prepare


def staged_half_moved(root: Path) -> None:
    os.link(sealed("queues/orders/1")(root), root / STAGED / "orders:1")


def staged_and_taken(root: Path) -> None:
    sealed(f"{STAGED}/orders:1")(root)
    another_body(root)


def claimed(root: Path) -> None:
    with spark_on(root) as spool:
        sealed("queues/orders/1")(root)
        take(start_group(spool))


def another_body(root: Path) -> None:
    write_message(root / "queues/orders/1", b"other", seal=seal_of(b"other"))


# What is done


@contextmanager
def spark_on(root: Path) -> Iterator[Spool]:
    with closing(visit_root(root, Files(), Actor.SPARK)) as spool:
        yield spool


def server(act: Callable[[RootAccess], object]) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        with closing(RootAccess(root)) as access:
            act(access)

    return run


def send(access: RootAccess) -> None:
    access.publish(ORDERS, io.BytesIO(b"body"), Line(b"body"))


def send_delayed(access: RootAccess) -> None:
    access.publish(ORDERS, io.BytesIO(b"body"), Line(b"body", delay_seconds=LONG_SECONDS))


def send_batch(access: RootAccess) -> None:
    access.publish_batch(ORDERS, b'{"body": "one"}\n{"body": "two"}\n')


def redrive(access: RootAccess) -> None:
    assert access.move(QueueMove(DEAD, ORDERS), 1) == (1, [])


def touch(access: RootAccess) -> None:
    with suppress(MQError):  # a damaged message has no lease
        access.touch(ORDERS, ONE, LONG_SECONDS, None)


def delete_and_make(access: RootAccess) -> None:
    with suppress(MQError):  # a refused deletion has begun
        access.delete_queue(ORDERS)
    access.create_queue(ORDERS)


release = server(lambda access: access.release(ORDERS, ONE, None))
receive = server(lambda access: access.receive(ORDERS, LONG_SECONDS))
remove = server(lambda access: access.remove(ORDERS, ONE, None))


def sweep(root: Path) -> None:
    with closing(visit_root(root, Files(), Actor.SERVER)) as spool:
        Sweeper(spool, lambda *_: None).sweep()


def move(source: str) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        move_due(root, source=source)

    return run


def reap(root: Path) -> None:
    with closing(Reaper(ReaperConfig(root / "remove", pause_seconds=0), Files())) as reaper:
        assert reaper.reap() > 0  # the probe of the root's first start lies there too


def repair(root: Path) -> None:
    list(Check(root, Files(), mend, lambda *_: None, settle_seconds=0).run())


def take(group: Group) -> Claim:
    claim = group.begin(1, 1)
    claim.take(ORDERS, ONE, lambda _: 0)
    return claim


def claim(root: Path) -> None:
    with spark_on(root) as spool:
        take(start_group(spool))


def seal_claim(root: Path) -> None:
    (open_claim,) = (root / "spark/claims/lake").glob("1.open.*")
    with spark_on(root) as spool:
        path = f"claims/lake/{open_claim.name}"
        assert Claim(spool, path, "claims/lake/1", ClaimError).seal()


def give_back(root: Path) -> None:
    with spark_on(root) as spool:
        Group(spool, "lake", "other").fence()


def start_attempt(spool: Spool, draft: StagedMessage, job: str = JOB) -> tuple[str, Attempt]:
    name = f"0-{next(_attempts)}"
    attempt = Attempt(Job(spool, job), 1, name)
    attempt.add([draft])
    return name, attempt


def stage(root: Path) -> None:
    with spark_on(root) as spool:
        start_attempt(spool, WRITTEN)[1].seal()


def give_up(root: Path) -> None:
    with spark_on(root) as spool:
        start_attempt(spool, WRITTEN)[1].give_up()


def write(draft: StagedMessage, job: str = JOB) -> Callable[[Path], None]:
    """Return what writes a whole transaction, or the rest of one."""

    def run(root: Path) -> None:
        with spark_on(root) as spool:
            if (root / f"spark/txn/{job}/1").exists():
                commit(Job(spool, job), 1, [])
                return
            name, attempt = start_attempt(spool, draft, job)
            attempt.seal()
            commit(Job(spool, job), 1, [name])

    return run


NEW, QUEUES, DELAY, REMOVE, CORRUPT, SPARK = Folder

CASES: dict[Arrow, Case] = {
    (Actor.SERVER, None, NEW): (Path.exists, server(send)),
    (Actor.SERVER, NEW, NEW): (Path.exists, server(send_batch)),
    (Actor.SERVER, NEW, QUEUES): (Path.exists, server(send)),
    (Actor.SERVER, NEW, DELAY): (Path.exists, server(send_delayed)),
    (Actor.SERVER, QUEUES, DELAY): (sealed("queues/orders/1"), receive),
    (Actor.SERVER, DELAY, QUEUES): (leased, release),
    (Actor.SERVER, QUEUES, QUEUES): (dead_letter, server(redrive)),
    (Actor.SERVER, NEW, REMOVE): (sealed("new/orders:1"), remove),
    (Actor.SERVER, QUEUES, REMOVE): (sealed("queues/orders/1"), remove),
    (Actor.SERVER, DELAY, REMOVE): (sealed("delay/orders:1"), remove),
    (Actor.SERVER, REMOVE, REMOVE): (Path.exists, server(delete_and_make)),
    (Actor.SERVER, NEW, None): (sealed("new/.upload"), sweep),
    (Actor.SERVER, NEW, CORRUPT): (torn("new/orders:1"), sweep),
    (Actor.SERVER, QUEUES, CORRUPT): (torn("queues/orders/1"), receive),
    (Actor.SERVER, DELAY, CORRUPT): (torn("delay/orders:1"), server(touch)),
    (Actor.SERVER, SPARK, QUEUES): (committed(sealed(f"{STAGED}/orders:1")), sweep),
    (Actor.SERVER, SPARK, DELAY): (committed(stamped(f"{STAGED}/orders:1")), sweep),
    (Actor.SERVER, SPARK, REMOVE): (committed(sealed(f"{STAGED}/gone:1")), sweep),
    (Actor.SERVER, SPARK, None): (committed(staged_half_moved), sweep),
    (Actor.SERVER, SPARK, CORRUPT): (committed(staged_and_taken), sweep),
    (Actor.MOVER, NEW, QUEUES): (sealed("new/orders:1"), move("new")),
    (Actor.MOVER, DELAY, QUEUES): (sealed("delay/orders:1"), move("delay")),
    (Actor.REAPER, REMOVE, None): (sealed("remove/orders:1"), reap),
    (Actor.FSCK, NEW, NEW): (sealed("new/orders:1"), repair),
    (Actor.FSCK, NEW, QUEUES): (sealed("new/orders:1"), repair),
    (Actor.FSCK, NEW, DELAY): (stamped("new/orders:1"), repair),
    (Actor.FSCK, NEW, REMOVE): (sealed("new/.upload"), repair),
    (Actor.FSCK, QUEUES, REMOVE): (sealed("queues/.upload"), repair),
    (Actor.FSCK, DELAY, REMOVE): (sealed("delay/.upload"), repair),
    (Actor.FSCK, REMOVE, REMOVE): (folder("remove/gone:.deleting"), repair),
    (Actor.FSCK, NEW, None): (batch_half_moved, repair),
    (Actor.FSCK, NEW, CORRUPT): (torn("new/orders:1"), repair),
    (Actor.FSCK, QUEUES, CORRUPT): (torn("queues/orders/1"), repair),
    (Actor.FSCK, DELAY, CORRUPT): (torn("delay/orders:1"), repair),
    (Actor.FSCK, REMOVE, CORRUPT): (folder("remove/foreign"), repair),
    (Actor.SPARK, QUEUES, CORRUPT): (torn("queues/orders/1"), claim),
    (Actor.SPARK, QUEUES, SPARK): (sealed("queues/orders/1"), claim),
    (Actor.SPARK, None, SPARK): (Path.exists, stage),
    (Actor.SPARK, SPARK, SPARK): (claimed, seal_claim),
    (Actor.SPARK, SPARK, QUEUES): (claimed, give_back),
    (Actor.SPARK, SPARK, DELAY): (Path.exists, write(WRITTEN_LATE)),
    (Actor.SPARK, SPARK, REMOVE): (Path.exists, give_up),
    (Actor.SPARK, SPARK, None): (Path.exists, write(WRITTEN, ".once")),
    (Actor.SPARK, SPARK, CORRUPT): (another_body, write(WRITTEN)),
}
