"""`Renewer`: threads that renew the leases of what a channel holds."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from contextlib import suppress

from mq.client import LeaseLost, Message
from mq.client.blocking.session import Session
from mq.client.renewals import renew_once, seconds_to_renewal

log = logging.getLogger("mq.kombu")

_MOST_HELPERS = 7
"""A thousand leases of 30 seconds are renewed in time if each renewal takes up to 80 ms."""
_LATE_SHARE = 0.1
"""A renewal is late when this share of the lease has gone by since it was due."""


class Renewer:
    """Renews leases, each after a third of it, until they end. A lease that is lost is logged.

    One thread does that. Helpers take what is late, so that one renewal that hangs, or a thousand
    that take long together, cost no other lease.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Message]] = []
        self._number = itertools.count()
        self._under_way: set[Message] = set()
        self._is_closed = False
        self._has_begun = False
        self._helpers = self._idle_helpers = 0

    def hold(self, message: Message) -> None:
        """Renew the lease of a message until `end` is called."""
        with self._changed:
            self._renew_in(seconds_to_renewal(message.delivery, time.monotonic()), message)
            if not self._has_begun:
                threading.Thread(target=self._run, name="mq-leases", daemon=True).start()
                self._has_begun = True

    def end(self, message: Message) -> None:
        """Stop renewing a lease. A renewal under way is waited for: if it came to the server after
        a release, it would undo that."""
        with self._changed:
            message.is_settled = True
            self._changed.wait_for(lambda: message not in self._under_way)

    def close(self) -> None:
        """Stop renewing all leases. This waits for nothing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (message := self._next(0.0)) is not None:
            self._renew(message)

    def _help(self) -> None:
        while (message := self._next(_LATE_SHARE)) is not None:
            self._renew(message)
            with self._changed:
                self._idle_helpers += 1

    def _call_for_help(self) -> None:
        """See to it that a helper looks for what is late while others are at work."""
        if not self._idle_helpers and self._helpers < _MOST_HELPERS:
            helper = threading.Thread(target=self._help, name="mq-leases", daemon=True)
            # The system may have no thread for it now. The next renewal asks for one again.
            with suppress(RuntimeError):
                helper.start()
                self._helpers += 1
                self._idle_helpers += 1

    def _next(self, late_share: float) -> Message | None:
        """Wait until a renewal is due, and this share of its lease late. Returns its message, or
        None once this is closed."""
        with self._changed:
            while not self._is_closed:
                while self._due and self._due[0][2].is_settled:
                    heapq.heappop(self._due)
                seconds = None
                if self._due:
                    due_at, _, message = self._due[0]
                    late_at = due_at + late_share * message.delivery.lease_seconds
                    seconds = late_at - time.monotonic()
                    if seconds <= 0:
                        heapq.heappop(self._due)
                        self._under_way.add(message)
                        if late_share:
                            self._idle_helpers -= 1
                        self._call_for_help()
                        return message
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
                self._under_way.discard(message)
                if again_seconds is not None:
                    self._renew_in(again_seconds, message)
                self._changed.notify_all()

    def _renew_in(self, seconds: float, message: Message) -> None:
        due_at = time.monotonic() + seconds
        heapq.heappush(self._due, (due_at, next(self._number), message))
        self._changed.notify_all()
