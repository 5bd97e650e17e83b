"""An operation on the folders, what it may need on its way, and who is told of its end.

An operation is a generator. Between two `yield`s it makes its file calls, alone on the thread that
runs it, in the order in which a crash may cut them off. It yields what it needs next and is sent
the answer:

    FileCalls     a chain of file calls, made together with those of others: its outcome
    Settled       the chains that others have asked for in this round are made, and no others until
                  its next `yield`
    Unsynced      a barrier: what these file calls left is on stable media, or StoreUnavailable
    InWorker      a call that takes long, in a worker: its result, or what it raised
    Pause         some seconds
    Shared        one operation for all who ask for it at the same time: its result or error
    Together      several operations in the same rounds: the outcome of each
    Apart         operations that go on by themselves and have callers of their own: None, at once

An operation leaves nothing unsynced behind when it yields anything but Unsynced, FileCalls, Settled
or Apart: a barrier that fails meanwhile would not be its own. Its locks on queues
(`Workspace.hold_queue`) last only through FileCalls, Settled and Apart, where other operations of
the round run on: they may see and do whatever another process could. So an operation that lets go
of a queue that others hold (`Workspace.forget_queue`) yields Settled first.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import structlog

from mq.commit.barrier import Unsynced
from mq.disk.calls import run_one
from mq.disk.file_work import FileCalls
from mq.errors import StoreUnavailable
from mq.spool.disk_errors import NO_ROOM

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Settled:
    """No other operation is between two file calls."""

    __slots__ = ()


SETTLED = Settled()


class InWorker:
    """A call of blocking file work that takes long."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


class Pause(NamedTuple):
    """A wait of some seconds: another process must do something first."""

    seconds: float


class Shared(NamedTuple):
    """An operation that is run once for all that ask for `key` before it ends."""

    key: str
    make: Callable[[], Operation[Any]]


class Together(NamedTuple):
    """Operations that share rounds. The answer has for each its result, or what it raised."""

    operations: Sequence[Operation[Any]]


class Apart(NamedTuple):
    """Operations that nobody here waits for. `done` of each tells its caller."""

    submitted: Sequence[Submitted]


Need = FileCalls | Settled | Unsynced | InWorker | Pause | Shared | Together | Apart

Operation = Generator[Need, Any, T]

Done = Callable[[Any, BaseException | None], None]
"""Takes an operation's result, or what it raised."""


def tell_nobody(result: object, error: BaseException | None) -> None:
    """Do nothing: the end of a part of an operation goes to `Submitted.then`."""


def tell(done: Done, result: object, error: BaseException | None) -> None:
    """Tell one caller that its operation is over. An error in that is logged, because others are
    still to be told."""
    try:
        done(result, error)
    except Exception:
        log.exception("the end of an operation could not be told")


def tell_each(ended: Iterable[Submitted]) -> None:
    """Tell the callers of operations that are over."""
    for each in ended:
        tell(each.done, each.result, each.error)


class Submitted:
    """An operation under way, for which `requests` requests wait. `need` is what it yielded last,
    None before its start and after its end. `answer` is sent at its `yield`, unless there is a
    `failure`, which is raised there."""

    # These are defaults of the class: an instance that sets all of them takes twice as long to
    # make.
    answer: Any = None
    failure: BaseException | None = None
    need: Need | None = None
    result: Any = None
    error: BaseException | None = None
    is_over = False
    failed_barriers = 0
    """How many barriers had failed when it began to wait."""
    requests = 1
    then: Callable[[Submitted], None] | None = None
    """If set, it is called at the end in place of `done`, on the thread that runs the operation."""

    def __init__(
        self, operation: Operation[Any], done: Done = tell_nobody, requests: int = 1
    ) -> None:
        self.operation = operation
        self.done = done
        if requests != 1:
            self.requests = requests

    def advance(self) -> None:
        """Run to the next `yield` or to the end."""
        answer, failure = self.answer, self.failure
        self.answer = self.failure = None
        try:
            if failure is None:
                self.need = self.operation.send(answer)
            else:
                self.need = self.operation.throw(failure)
        except StopIteration as stop:
            self.need = None
            self.result = stop.value
        except BaseException as error:
            self._fail(error)
        finally:
            # The traceback of a failure leads here, and would keep alive what its frames have open.
            failure = None

    def advance_alone(self, met: type[Unsynced] | None = None) -> None:
        """Run to the end, or until it must wait, with no operation beside it: file calls are made
        at once. A need of the type `met` counts as met."""
        send, answer, failure = self.operation.send, self.answer, self.failure
        self.answer = self.failure = None
        try:
            need = send(answer) if failure is None else self.operation.throw(failure)
            while True:
                if type(need) is FileCalls:
                    try:
                        answer = run_one(*need)
                    except BaseException as error:
                        need = self.operation.throw(error)
                    else:
                        need = send(answer)
                elif need is SETTLED or type(need) is met:
                    need = send(None)
                else:
                    self.need = need
                    return
        except StopIteration as stop:
            self.need = None
            self.result = stop.value
        except BaseException as error:
            self._fail(error)
        finally:
            failure = None  # See `advance`.

    def _fail(self, error: BaseException) -> None:
        self.need = None
        self.error = client_error(_from_within(error))


class Called(Submitted):
    """A function that needs nothing."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], done: Done) -> None:
        self.function = function
        self.arguments = arguments
        self.done = done

    def advance(self) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            self.result = self.function(*self.arguments)
        except BaseException as error:
            self._fail(error)

    def advance_alone(self, met: type[Unsynced] | None = None) -> None:
        self.advance()


def requests_of(operations: Iterable[Submitted]) -> int:
    """Return how many requests wait for these operations."""
    return sum(map(_REQUESTS, operations))


_REQUESTS = attrgetter("requests")


def client_error(error: BaseException) -> BaseException:
    """Return the error that a client gets in place of this one."""
    return unavailable(error) if isinstance(error, OSError) else error


_WAYS_OUT = {
    **dict.fromkeys(NO_ROOM, "make room, then try again"),
    errno.EMFILE: "raise the limit of this process (ulimit -n, LimitNOFILE= of a unit)",
    errno.ENFILE: "raise the limit of this machine (fs.file-max)",
    errno.EACCES: "mqctl fsck names what is another user's or has the wrong mode",
    errno.EPERM: "look for what chattr made immutable, or what is another user's",
    errno.EROFS: "the file system is mounted read-only; the kernel's log may say why",
}


def unavailable(error: OSError) -> StoreUnavailable:
    """Return the error that a client gets for a file call that failed."""
    way_out = _WAYS_OUT.get(error.errno or 0, "try again")
    return StoreUnavailable(f"the store cannot do this now: {error.strerror or error}; {way_out}")


def _from_within(error: BaseException) -> BaseException:
    """Return the error without the frame that caught it. That frame knows the operation, which
    knows the error: in a circle they would keep alive whatever the other frames have open."""
    trace = error.__traceback__
    return error if trace is None else error.with_traceback(trace.tb_next)
