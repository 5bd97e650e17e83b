"""Removals of one message each. Those that come before one round are one operation; one that must
wait for another process goes on by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mq.commit.committer import Committer
from mq.commit.operation import Done, Submitted
from mq.spool.message.held import Lost
from mq.store.context import Workspace
from mq.store.joint import Joint, tell_outcome
from mq.store.removing.remove_many import Removal, removal, remove_each

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
        if len(asked) == 1:
            # Its file calls are made with those of other operations.
            self._remove_alone(*asked[0])
            return
        removing = remove_each(self._work, [each for each, _ in asked])
        telling = partial(self._tell, asked)
        self._committer.submit(Submitted(removing, telling, len(asked)))

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
