"""Send a request until it is answered, or the retry time is over."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from mq.client import arguments
from mq.client.errors import ClientError, NoAnswer, Unauthorized, Unavailable
from mq.client.own_ids import OwnIds
from mq.client.problems import error_of
from mq.client.token import Refreshed, Token, bearer
from mq.client.wire import LONGEST_SECONDS, ClientPause, Operation, Request, ServerAnswer
from mq.config import CLIENT_BACKOFF_SECONDS

GIVE_BACK_SECONDS = 2.0
"""How long a client tries to give back a message whose handling failed. If it cannot, the message
returns when its lease ends."""

TOKEN_SECONDS = 3.0
"""How long a request whose token was refused waits for another token while the file of the token is
missing or empty: it may be just being written."""

WORKER_BACKOFF_SECONDS = (1.0, 300.0)
"""How long a worker hides a message after the first failure, and at most."""

log = logging.getLogger("mq.client")

WORKER_PAUSE_SECONDS = 1.0
"""How long a worker waits after a request for messages failed, besides what the server asks for."""

_SHORTEST_TRY_SECONDS = 1.0
_MOST_DOUBLINGS = 32
_MOST_TOKENS = 8
"""A request is sent with at most this many tokens, each after the one before was refused."""


class Context(NamedTuple):
    """What the requests of one client share."""

    timeout_seconds: float
    retry_seconds: float
    clock: Callable[[], float]
    token: Token
    ids: OwnIds
    url: str

    def within(self, seconds: float) -> Context:
        """Return a context for a request that is of no use after this time."""
        return self._replace(
            timeout_seconds=min(self.timeout_seconds, max(seconds, _SHORTEST_TRY_SECONDS)),
            retry_seconds=min(self.retry_seconds, seconds),
        )


def new_context(url: str, token: Token, timeout_seconds: float, retry_seconds: float) -> Context:
    """Return what the requests of a new client share. Raises ValueError, TypeError."""
    arguments.seconds("timeout_seconds", timeout_seconds)
    arguments.seconds("retry_seconds", retry_seconds)
    if not 0 < timeout_seconds <= LONGEST_SECONDS:
        raise ValueError(
            f"timeout_seconds={timeout_seconds}: give more than 0, up to {LONGEST_SECONDS:.0f} "
            "seconds"
        )
    if not retry_seconds >= 0:
        raise ValueError(f"retry_seconds={retry_seconds}: give 0 seconds or more; 0 is for never")
    return Context(timeout_seconds, retry_seconds, time.monotonic, token, OwnIds(), url)


def ask(
    context: Context, request: Request, done_if: tuple[type[ClientError], ...] = ()
) -> Operation[ServerAnswer]:
    """Send a request until it is answered.

    Every request of a client may be sent again: no message is lost or published twice, though one
    that is not repeatable may move more. An error of the kinds in `done_if`, after a try whose
    outcome is unknown, means that this try succeeded. A repeatable request that met the end of an
    idle connection is sent again at once, whatever the retry time. Raises ClientError.
    """
    tries = _Tries(context, request, done_if)
    while True:
        try:
            answer = yield tries.next()
        except NoAnswer as error:
            tries.note_no_answer(error)
            outcome: ServerAnswer | ClientError = error
        else:
            assert answer is not None
            outcome = tries.outcome_of(answer)
        if isinstance(outcome, ServerAnswer):
            return outcome
        pause = tries.pause_after(outcome)
        if pause > 0:
            yield ClientPause(pause)
            # It is logged only after the pause, in which a request that is not wanted any more is
            # dropped.
            tries.tell(outcome)


class _Tries:
    """The tries of one request. It is uncertain once one of them may have done what was asked."""

    def __init__(
        self, context: Context, request: Request, done_if: tuple[type[ClientError], ...]
    ) -> None:
        self._context = context
        self._request = request
        self._done_if = done_if
        self._credentials = _Credentials(context)
        self._give_up_at = context.clock() + context.retry_seconds
        self._backoff, self._longest = CLIENT_BACKOFF_SECONDS
        self._sent_at = 0.0
        self._may_go_again_at_once = request.is_repeatable
        self._is_uncertain = self._has_told = False

    def next(self) -> Request:
        """Return what is to be sent now."""
        self._sent_at = self._context.clock()
        return replace(
            self._request,
            headers={**self._credentials.headers(), **self._request.headers},
            timeout_seconds=self._context.timeout_seconds,
        )

    def note_no_answer(self, error: NoAnswer) -> None:
        self._is_uncertain = self._is_uncertain or not error.is_unsent

    def outcome_of(self, answer: ServerAnswer) -> ServerAnswer | ClientError:
        """Return an answer that says that the request is done, or the error that another one
        means."""
        context, now = self._context, self._context.clock()
        context.ids.hear(answer.headers.get("date"), now - self._sent_at, now - answer.came_at)
        answer = answer._replace(is_repeated=self._is_uncertain)
        if answer.status in self._request.done:
            return answer
        error = error_of(answer)
        if self._is_uncertain and isinstance(error, self._done_if):
            return answer
        self._is_uncertain = self._is_uncertain or isinstance(error, Unavailable)
        return error

    def pause_after(self, error: ClientError) -> float:
        """Return how long to wait before the next try. Raises `error` if there is none."""
        if isinstance(error, NoAnswer) and error.has_parted and self._may_go_again_at_once:
            self._may_go_again_at_once = False
            return 0.0
        if isinstance(error, Unauthorized):
            pause = self._credentials.pause_after_refusal(self._backoff)
        else:
            pause = _pause_after(error, self._backoff)
        if pause is None or (pause > 0 and self._context.clock() + pause >= self._give_up_at):
            raise error
        if pause > 0:
            self._backoff = min(2 * self._backoff, self._longest)
        return pause

    def tell(self, error: ClientError) -> None:
        """Log the first error of this request."""
        if not self._has_told:
            self._has_told = True
            where = "" if isinstance(error, NoAnswer) else f"{self._context.url}: "
            log.warning(
                "%s%s; trying again for up to %.3g s", where, error, self._context.retry_seconds
            )


class _Credentials:
    """The tokens that one request is sent with. Each is sent after the one before was refused."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shown: str | None = None
        self._refusals = 0
        self._wait_until: float | None = None

    def headers(self) -> dict[str, str]:
        self._shown = self._context.token.show()
        return bearer(self._shown)

    def pause_after_refusal(self, backoff_seconds: float) -> float | None:
        """Return how long to wait before the request is sent with another token, or None if there
        is no other."""
        now = self._context.clock()
        found = self._context.token.refresh(self._shown)
        if found is Refreshed.ANOTHER:
            self._refusals += 1
            return 0.0 if self._refusals < _MOST_TOKENS else None
        if self._wait_until is None:
            self._wait_until = now + TOKEN_SECONDS
        return backoff_seconds if found is Refreshed.NOT_YET and now < self._wait_until else None


def _pause_after(error: ClientError, backoff_seconds: float) -> float | None:
    """Return the pause before the next try, or None if the same request would fail again. The pause
    is shortened at random, so that clients which lost the same server do not return at the same
    time, but it is never shorter than the server asks for."""
    pause = backoff_seconds * random.uniform(0.5, 1.0)
    if isinstance(error, Unavailable):
        return max(pause, error.retry_after_seconds or 0.0)
    return pause if isinstance(error, NoAnswer) else None


def is_temporary(error: ClientError) -> bool:
    """Return whether the same request may succeed later."""
    return isinstance(error, NoAnswer | Unavailable)


def asked_pause_seconds(error: ClientError) -> float:
    """Return how long the server asks to wait, which may be longer than the retry time; 0 if it
    does not say."""
    return (isinstance(error, Unavailable) and error.retry_after_seconds) or 0.0


def handling_backoff_seconds(receive_count: int | None) -> float:
    """Return how long a message whose handling failed is hidden. It doubles with each receive."""
    first, longest = WORKER_BACKOFF_SECONDS
    times = min(max((receive_count or 1) - 1, 0), _MOST_DOUBLINGS)
    return float(min(first * 2**times, longest) * random.uniform(0.5, 1.0))
