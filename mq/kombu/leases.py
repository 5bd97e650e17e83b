"""`Renewer`: a thread that renews the leases of what a channel holds."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time

from mq.client import LeaseLost, Message
from mq.client.blocking.session import Session
from mq.client.renewals import renew_once, seconds_to_renewal

log = logging.getLogger("mq.kombu")


class Renewer:
    """Renews leases, each after a third of it, until they end. A lease that is lost is logged."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Message]] = []
        self._number = itertools.count()
        self._under_way: Message | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def hold(self, message: Message) -> None:
        """Renew the lease of a message until `end` is called."""
        with self._changed:
            self._renew_in(seconds_to_renewal(message.delivery, time.monotonic()), message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mq-leases", daemon=True)
                self._thread.start()

    def end(self, message: Message) -> None:
        """Stop renewing a lease. A renewal under way is waited for: if it came to the server after
        a release, it would undo that."""
        with self._changed:
            message.is_settled = True
            self._changed.wait_for(lambda: self._under_way is not message)

    def close(self) -> None:
        """Stop renewing all leases. This waits for nothing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (message := self._next()) is not None:
            self._renew(message)

    def _next(self) -> Message | None:
        """Wait until a lease is to be renewed. Returns its message, or None once this is closed."""
        with self._changed:
            while not self._is_closed:
                while self._due and self._due[0][2].is_settled:
                    heapq.heappop(self._due)
                seconds = self._due[0][0] - time.monotonic() if self._due else None
                if seconds is not None and seconds <= 0:
                    self._under_way = heapq.heappop(self._due)[2]
                    return self._under_way
                self._changed.wait(seconds)
            return None

    def _renew(self, message: Message) -> None:
        delivery, again_seconds = message.delivery, None
        try:
            renewal = renew_once(self._session.context, delivery, delivery.visibility)
            again_seconds = self._session.run(renewal)
        except LeaseLost as error:
            message.lost = error
            log.warning(
                "the lease on message %s of queue %s is lost, its task may run twice: %s",
                message.id, message.queue, error,
            )  # fmt: skip
        finally:
            with self._changed:
                self._under_way = None
                if again_seconds is not None:
                    self._renew_in(again_seconds, message)
                self._changed.notify_all()

    def _renew_in(self, seconds: float, message: Message) -> None:
        due_at = time.monotonic() + seconds
        heapq.heappush(self._due, (due_at, next(self._number), message))
        self._changed.notify_all()
