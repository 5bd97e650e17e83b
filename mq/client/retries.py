"""How often a request is sent."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from mq.client.errors import ClientError, NoAnswer, Unauthorized, Unavailable
from mq.client.own_ids import OwnIds
from mq.client.problems import error_of
from mq.client.wire import Answer, Operation, Pause, Request
from mq.config import CLIENT_BACKOFF_SECONDS, WORKER_BACKOFF_SECONDS

_SHORTEST_TRY_SECONDS = 1.0
_MOST_DOUBLINGS = 32


class Context(NamedTuple):
    """What the requests of one client share. `refresh_token` reads the token anew and returns
    whether it is another."""

    timeout_seconds: float
    retry_seconds: float
    clock: Callable[[], float]
    refresh_token: Callable[[], bool]
    ids: OwnIds

    def within(self, seconds: float) -> Context:
        """For what is of no use after so long."""
        return self._replace(
            timeout_seconds=min(self.timeout_seconds, max(seconds, _SHORTEST_TRY_SECONDS)),
            retry_seconds=min(self.retry_seconds, seconds),
        )


def ask(context: Context, request: Request, gone_is_done: bool = False) -> Operation[Answer]:
    """Send a request until it is answered.

    Every request of a client is safe to send again. With `gone_is_done` a 404 after a try whose
    outcome is unknown means that this try succeeded. Raises ClientError.
    """
    request = replace(request, timeout_seconds=context.timeout_seconds)
    give_up_at = context.clock() + context.retry_seconds
    backoff, longest = CLIENT_BACKOFF_SECONDS
    is_uncertain = False
    while True:
        try:
            answer = yield request
        except NoAnswer as no_answer:
            error: ClientError = no_answer
        else:
            assert answer is not None
            context.ids.hear(answer.headers.get("date"))
            if is_success(answer.status) or (
                answer.status == 404 and gone_is_done and is_uncertain
            ):
                return answer
            error = error_of(answer)
        if isinstance(error, Unauthorized) and context.refresh_token():
            continue
        pause = _pause_after(error, backoff)
        if pause is None or context.clock() + pause >= give_up_at:
            raise error
        is_uncertain = True
        yield Pause(pause)
        backoff = min(2 * backoff, longest)


def is_success(status: int) -> bool:
    return 200 <= status < 300


def _pause_after(error: ClientError, backoff_seconds: float) -> float | None:
    """None if the same request would fail again. By chance shorter, so that clients which lost the
    same server do not come back at the same time; never shorter than the server asks for."""
    pause = backoff_seconds * random.uniform(0.5, 1.0)
    if isinstance(error, Unavailable):
        return max(pause, error.retry_after_seconds or 0.0)
    return pause if isinstance(error, NoAnswer) else None


def is_temporary(error: ClientError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, NoAnswer | Unavailable)


def handling_backoff_seconds(receive_count: int | None) -> float:
    """For how long a message is hidden whose handling failed: doubled each time."""
    first, longest = WORKER_BACKOFF_SECONDS
    times = min(max((receive_count or 1) - 1, 0), _MOST_DOUBLINGS)
    return float(min(first * 2**times, longest) * random.uniform(0.5, 1.0))
