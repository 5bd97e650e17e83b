"""The committer's thread: it makes the rounds that the event loop does not.

While a barrier runs, the next round gathers (`mq.commit.pipelined_rounds`); only beside other
servers does the thread wait for more (`mq.commit.gathering`).

After a failed barrier, in a round of its own or of the event loop, the thread refuses everything
until it has reopened and swept the store, which it tries again and again, with backoff.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import structlog

from mq.commit.arrivals import Arrivals
from mq.commit.barrier_thread import BarrierThread
from mq.commit.engine import Engine
from mq.commit.gathering import Gathering
from mq.commit.light_rounds import FEW_MESSAGES, LightRounds
from mq.commit.operation import Submitted
from mq.commit.pipelined_rounds import PipelinedRounds
from mq.commit.reopening import Reopening
from mq.commit.rounds import MAX_ROUND_OPERATIONS, Rounds

log = structlog.get_logger(__name__)


class CommitterThread:
    """The thread of one committer. `failure` says why everything is refused now.

    Rounds belong to the thread that holds `at_work`: this one, except while it waits for a turn.
    Then the event loop may take the lock and make rounds. If one of these has a defect, that is
    noted as `loop_defect`, and the thread raises it. A defect ends the thread, and the committer
    with it: then `refuse_under_way` is called on the event loop.
    """

    def __init__(
        self,
        engine: Engine,
        rounds: Rounds,
        arrivals: Arrivals,
        reopening: Reopening,
        refuse_under_way: Callable[[], None],
        *,
        barriers: BarrierThread | None,
        gathering: Gathering | None,
        light_rounds: LightRounds | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._rounds = rounds
        self._arrivals = arrivals
        self._reopening = reopening
        self._refuse_under_way = refuse_under_way
        self._barriers = barriers
        self._gathering = gathering
        self._light_rounds = light_rounds
        self._pipelined = PipelinedRounds(rounds, barriers, light_rounds, self.wake)
        self._reopened_after = 0
        self._is_ready = False
        self.failure: str | None = None
        self.has_defect = False
        self.loop_defect: BaseException | None = None
        self.at_work = threading.Lock()
        self.at_work.acquire()
        self._thread = threading.Thread(target=self._run, name="committer")

    @property
    def in_flight(self) -> list[Submitted]:
        return self._pipelined.in_flight

    def start(self) -> None:
        """Start. Raises RuntimeError if the system has no thread for it."""
        try:
            self._thread.start()
        except RuntimeError:
            self._close_barriers()
            raise

    def is_alive(self) -> bool:
        return not self.has_defect and self._thread.is_alive()

    def is_wanted(self) -> bool:
        """Whether something waits for the thread, or the thread waits for the event loop to
        leave."""
        return self._is_ready or self._arrivals.has_turn()

    def has_failed(self) -> bool:
        """Whether the thread must see to something before there is another round."""
        return self.loop_defect is not None or self._engine.failed_barriers != self._reopened_after

    def wake(self) -> None:
        """Wake the thread. Any thread may call it."""
        self._arrivals.put([])

    def refuse_pending(self) -> None:
        """Refuse what no round has taken yet, because of the `failure`."""
        self.refuse(self._arrivals.take_all())

    def refuse(self, refused: list[Submitted]) -> None:
        assert self.failure is not None
        self._rounds.refuse(refused, self.failure)

    def stop_reopening(self) -> None:
        self._reopening.stop()

    def join(self) -> None:
        """Wait for the thread to end, which it does once all that arrived is over."""
        self._thread.join()
        self._close_barriers()

    def _close_barriers(self) -> None:
        if self._barriers is not None:
            self._barriers.close()

    def _run(self) -> None:
        try:
            while (taken := self.take()) is not None:
                self.go_on_with(taken)
        except BaseException:
            log.exception("the committer ended by a defect")
            self._close_barriers()  # Until then one may need what operations have open.
            self.failure = "the server has a defect and must be restarted"
            self.has_defect = True
            self._engine.note_failed_barrier(self.failure)
            # This runs on the event loop, where no operation can be handed over between its look
            # and its end.
            self._loop.call_soon_threadsafe(self._refuse_under_way)

    def take(self) -> list[Submitted] | None:
        """Return all operations that can go on, up to the limit. Waits for the first, unless there
        is something else to do, which may come without any. Returns None when all is over."""
        rounds = self._pipelined
        while True:
            if rounds.has_landed():
                return []
            taken = self._arrivals.take(MAX_ROUND_OPERATIONS - len(self._rounds.unsynced))
            # A barrier may have landed meanwhile, and what woke the thread for it may be taken too.
            if taken or rounds.has_landed() or rounds.is_barrier_due():
                return taken
            if self._arrivals.is_ended and not (self._engine.away or rounds.is_flying):
                return None
            self._wait_for_turn()
            if self.has_failed():
                return []

    def _wait_for_turn(self) -> None:
        """Wait for what comes next. Meanwhile the event loop may make rounds, unless a barrier is
        in flight."""
        if self._pipelined.is_flying:
            self._arrivals.admit(self._arrivals.wait())
            return
        self.at_work.release()
        try:
            turn = self._arrivals.wait()
        finally:
            self._is_ready = True
            self.at_work.acquire()
            self._is_ready = False
        self._arrivals.admit(turn)
        if turn is not None and self._gathering is not None:
            self._gathering.wait(self._arrivals.waiting)

    def go_on_with(self, taken: list[Submitted]) -> None:
        """Go on with a round that has landed, or with these operations. Then see to what has
        failed, also in a round of the event loop."""
        if not taken and self._pipelined.has_landed():
            self._pipelined.land()
        elif not self.has_failed():
            self._make_round(taken)
        self._rounds.tell()
        if self.loop_defect is not None:
            raise self.loop_defect
        if self.has_failed():
            self._reopen()
            self._reopened_after = self._engine.failed_barriers

    def _make_round(self, taken: list[Submitted]) -> None:
        """Make a round, and note how long it would have kept the event loop, which takes many
        messages in parts."""
        began = time.perf_counter()
        messages = self._pipelined.make(taken)
        if self._light_rounds is not None:
            seconds = time.perf_counter() - began
            self._light_rounds.note(seconds * min(1.0, FEW_MESSAGES / max(1, messages)))

    def _reopen(self) -> None:
        """Refuse everything until the store has been reopened and swept."""
        self.failure = self._engine.why_failed
        if self._reopening.run(self.refuse_pending):
            self.failure = None
