"""Removals of one message each. Those that come before one round are one operation; one that must
wait for another process goes on by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from mq.commit.committer import Committer
from mq.commit.operation import Done, Submitted, tell
from mq.spool.message.held import Lost
from mq.store.joint import Joint, tell_outcome
from mq.store.removing.remove_many import Removal, removal, remove_each
from mq.store.shared_state import Workspace

_Asked = tuple[Removal, Done]


class JointRemovals:
    """The removals of one server that do not come several in a request. Used on the event loop."""

    def __init__(self, work: Workspace, committer: Committer) -> None:
        self._work = work
        self._committer = committer
        self._joint: Joint[_Asked] = Joint(committer, self._remove)

    def submit(self, asked: Removal, done: Done) -> None:
        """Remove a message. `done` gets None, or what `removal` raises."""
        self._joint.ask((asked, done))

    def _remove(self, asked: Sequence[_Asked]) -> None:
        number, removals = len(asked), [each for each, _ in asked]
        if len({*removals}) < number:
            asked = _joined(asked)
            removals = [each for each, _ in asked]
        if len(asked) == 1:
            # Its file calls are made with those of other operations.
            self._remove_alone(*asked[0])
            return
        telling = partial(self._tell, asked)
        self._committer.submit(Submitted(remove_each(self._work, removals), telling, number))

    def _remove_alone(self, asked: Removal, done: Done) -> None:
        self._committer.submit(Submitted(removal(self._work, *asked), done))

    def _tell(
        self,
        asked: Sequence[_Asked],
        outcomes: Sequence[Exception | Lost | None] | None,
        error: BaseException | None,
    ) -> None:
        all_outcomes = [error] * len(asked) if outcomes is None else outcomes
        for (each, done), outcome in zip(asked, all_outcomes, strict=True):
            if isinstance(outcome, Lost):
                self._remove_alone(each, done)
            else:
                tell_outcome(done, outcome)


def _joined(asked: Sequence[_Asked]) -> list[_Asked]:
    """Return what is asked, each removal once and for all who ask for it. They would keep the
    message's lock from one another."""
    dones: defaultdict[Removal, list[Done]] = defaultdict(list)
    for each, done in asked:
        dones[each].append(done)
    return [(each, partial(_tell_all, some)) for each, some in dones.items()]


def _tell_all(dones: Sequence[Done], result: object, error: BaseException | None) -> None:
    for done in dones:
        tell(done, result, error)
